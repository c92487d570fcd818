"""Fork: the child lives the life it is given, and ends with it."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mayfly import exits
from mayfly.signals import STOPS


def fork_into(life: Callable[[], int]) -> int:
    """The child's pid. The child itself never returns into the stack that it was forked from."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = exits.ERROR
    try:
        code = life()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the last frame of this process: say why, then end
        traceback.print_exc()
        code = exits.ERROR
    finally:
        os._exit(code)


def forget_signals() -> None:
    """In the child: the dispatcher's way of listening is not the child's."""
    signal.set_wakeup_fd(-1)
    for each in STOPS:
        signal.signal(each, signal.SIG_DFL)


@contextmanager
def stop_signals_held() -> Iterator[None]:
    """The runner inherits this: told to stop before it can listen, it neither dies of that nor misses it."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def own_group(pid: int) -> None:
    """Set by both sides: whoever needs it first finds it done."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return


def kill_group(pid: int, number: signal.Signals) -> None:
    """A process and whatever it started. Until it is waited for, its number is its own."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return
