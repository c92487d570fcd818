"""The signals by which Mayfly's processes are told to stop, and which are held back until they can listen."""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import psutil

from mayfly.process import exits

# To a dispatcher: the next one is here and wants the host lock. To a runner: claim nothing more, and take your time.
HANDOVER = signal.SIGUSR1
STOPS = (signal.SIGTERM, signal.SIGINT, HANDOVER)

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent_pid: int) -> None:
    """A runner whose dispatcher was killed is killed too: nobody would be left to end it in time."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before we had asked
        os._exit(exits.ERROR)


def adopt_orphans() -> None:
    """What a runner leaves behind becomes ours, so that we can find and end it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays(spare: Collection[int] = ()) -> None:
    """All children of this process with all of theirs, but for those (see prctl.adopt_orphans)."""
    strays: list[psutil.Process] = []
    for each in psutil.Process().children():
        if each.pid not in spare:
            with suppress(psutil.NoSuchProcess):
                strays += [each, *each.children(recursive=True)]
    for stray in strays:
        try:
            stray.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(strays, timeout=1)


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
