"""Two promises of the Linux kernel about processes that Python has no names for."""

import ctypes
import os
import signal

from mayfly import exits

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
