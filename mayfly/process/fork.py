"""Child processes: fork, signals, process groups, output, and orphans that they leave running."""

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
# To a runner that is running a job: drop the jobs that have not started. Without a handler it would end the process.
RECLAIM = signal.SIGRTMIN + 2
STOPS = (signal.SIGTERM, signal.SIGINT, HANDOVER)

MAX_OUTPUT_BYTES = 64 << 10
_CHUNK_BYTES = 64 << 10
_END_BYTES = 16 << 10
_MAX_CHUNKS_PER_READ = 16  # more than a pipe holds; a child that never stops printing must not block the dispatcher

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def fork_into(main: Callable[[], int]) -> int:
    """Returns the child's pid. The child runs `main` and exits with its result; it never returns from here."""
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
    """When the parent dies, the kernel kills this process: otherwise nothing would end a runner in time."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # the parent died before the call
        os._exit(exits.ERROR)


def adopt_orphans() -> None:
    """Become a subreaper: orphans of a runner become children of this process, which can kill them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_strays(spare: Collection[int] = ()) -> None:
    """Kill all descendants of this process except those in `spare` (see adopt_orphans)."""
    strays: list[psutil.Process] = []
    for each in psutil.Process().children():
        if each.pid not in spare:
            with suppress(psutil.NoSuchProcess):
                strays += [each, *each.children(recursive=True)]
    for stray in strays:
        with suppress(psutil.NoSuchProcess):
            stray.kill()
    psutil.wait_procs(strays, timeout=1)


def forget_signals() -> None:
    """Reset the parent's signal handlers in a forked child."""
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
    """Called by parent and child, so that the group exists whichever of them needs it first."""
    with suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)


def kill_group(pid: int, number: signal.Signals) -> None:
    """Signal a child and its descendants. Its pid is not reused before the child has been waited for."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


class ChildOutput:
    """The read end of a child's stdout and stderr: kept up to a bound, the rest is counted and dropped."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.dropped = 0
        self._room = MAX_OUTPUT_BYTES
        self._partial = b""
        self._end = b""  # of everything, also of what was dropped

    def refill(self) -> None:
        """Reset the bound."""
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
            self._end = (self._end + chunk)[-_END_BYTES:]
            kept += chunk[: self._room]
            self.dropped += max(0, len(chunk) - self._room)
            self._room = max(0, self._room - len(chunk))
        whole, newline, self._partial = bytes(kept).rpartition(b"\n")
        if not is_open:
            whole, self._partial = whole + newline + self._partial, b""
        return whole.decode(errors="replace").splitlines(), is_open

    @property
    def end(self) -> str:
        """The last kilobytes: a traceback that the process printed before it ended."""
        return self._end.decode(errors="replace")

    def close(self) -> None:
        os.close(self.descriptor)
