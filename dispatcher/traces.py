"""What an import has left in its process that forks must not share: threads, descriptors, children."""

import fcntl
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from mayfly.clock import monotonic, pause

Opened = tuple[int, str]  # a descriptor and what it is open to

ENDING_SECONDS = 1.0  # the kernel shows a thread for a moment after its end: our own faulthandler's, mostly
_HARMLESS = {"/dev/null", "/dev/urandom", "/dev/random"}


def open_things() -> frozenset[Opened]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one by which the directory itself was read
            found.add((int(each.name), str(each.readlink())))
    return frozenset(found)


def traces_left(before: frozenset[Opened]) -> str | None:
    """In words, the first thing that has come since; None where a fork is as good as an import."""
    return _thread() or _child() or _descriptor(before)


def _thread() -> str | None:
    """A fork has only the thread that forked: the others are missing in it, and what they held stays held."""
    until = monotonic() + ENDING_SECONDS
    while len(list(Path("/proc/self/task").iterdir())) > 1:
        names = [each.name for each in threading.enumerate() if each is not threading.current_thread()]
        if names or monotonic() > until:
            return f"a thread ({', '.join(names) or 'not of Python'})"
        pause(0.001)
    return None


def _child() -> str | None:
    """Only the process that started it can wait for it, and its pipes would have many readers."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return "a child process"


def _descriptor(before: frozenset[Opened]) -> str | None:
    """Forks share the stream of a socket, the place in a file, the lock of a database."""
    for descriptor, target in sorted(open_things() - before):
        if target not in _HARMLESS and not _is_appended_to(descriptor):
            return f"an open descriptor ({target})"
    return None


def _is_appended_to(descriptor: int) -> bool:
    """A log file: each write goes to its end, whoever writes."""
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    return is_file and bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND)
