"""Child processes: fork, their signals and process groups, what they print, and what they leave running."""

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import psutil

from mayfly.process import exits

# To a dispatcher: the next one has started and wants the host lock.
# To a runner: claim nothing more, and finish the running jobs.
HANDOVER = signal.SIGUSR1
STOPS = (signal.SIGTERM, signal.SIGINT, HANDOVER)

MAX_OUTPUT_BYTES = 64 << 10
_CHUNK_BYTES = 64 << 10
_MAX_CHUNKS_PER_READ = 16  # more than a pipe holds; a child that never stops printing must not block the dispatcher

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def fork_into(main: Callable[[], int]) -> int:
    """The child's pid. The child runs `main`, exits with its result and never returns into the caller's stack."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = exits.ERROR
    try:
        code = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the last frame of this process: print the traceback, then exit
        traceback.print_exc()
        code = exits.ERROR
    finally:
        os._exit(code)


def die_with_parent(parent_pid: int) -> None:
    """A runner whose dispatcher was killed is killed too: no other process would end it in time."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # the parent died before the call
        os._exit(exits.ERROR)


def adopt_orphans() -> None:
    """Become the subreaper: what a runner leaves running becomes a child of this process, which can end it."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays(spare: Collection[int] = ()) -> None:
    """Kill all descendants of this process except those in `spare` (see adopt_orphans)."""
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


def forget_signals() -> None:
    """In a forked child: reset the parent's signal handlers."""
    signal.set_wakeup_fd(-1)
    for each in STOPS:
        signal.signal(each, signal.SIG_DFL)


@contextmanager
def stop_signals_held() -> Iterator[None]:
    """Block stop signals across a fork. The child inherits the mask: a signal that arrives before its handlers are
    installed neither kills it nor gets lost."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def own_group(pid: int) -> None:
    """Called by parent and child: the first of them that needs the group finds it."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return


def kill_group(pid: int, number: signal.Signals) -> None:
    """Signal a child and all that it started. Its pid is not reused before the child has been waited for."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


class ChildOutput:
    """The reading end of a child's stdout and stderr: kept up to a bound, the rest counted and dropped."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.dropped = 0
        self._room = MAX_OUTPUT_BYTES
        self._partial = b""

    def refill(self) -> None:
        """Allow the full bound again from here on."""
        self._room = MAX_OUTPUT_BYTES

    def lines(self) -> tuple[list[str], bool]:
        """Complete lines that have arrived, and whether more may follow."""
        kept = bytearray(self._partial)
        is_open = True
        for _ in range(_MAX_CHUNKS_PER_READ):
            try:
                chunk = os.read(self.descriptor, _CHUNK_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                is_open = False
                break
            kept += chunk[: self._room]
            self.dropped += max(0, len(chunk) - self._room)
            self._room = max(0, self._room - len(chunk))
        whole, newline, self._partial = bytes(kept).rpartition(b"\n")
        if not is_open:
            whole, self._partial = whole + newline + self._partial, b""
        return whole.decode(errors="replace").splitlines(), is_open

    def close(self) -> None:
        os.close(self.descriptor)
