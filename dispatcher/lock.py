"""The host lock: one dispatcher a host and database. The kernel releases it with the process, however that ends."""

import fcntl
import os
from pathlib import Path


class HostLock:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        """Also in a forked child: a runner must not hold the lock on behalf of a dead dispatcher."""
        os.close(self._descriptor)


def take_lock(path: Path) -> HostLock | None:
    """None while another dispatcher holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return HostLock(descriptor)
