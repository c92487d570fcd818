"""The host lock: one dispatcher per host and database. The kernel releases it when the process ends."""

import fcntl
import os
from pathlib import Path

from mayfly.errors import StateDirUnsafe


class HostLock:
    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor: int | None = descriptor
        self._path = path

    def sign(self, note: str) -> None:
        """Write into the file which process holds it (see fleet.dispatchers)."""
        if self._descriptor is not None:
            try:
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, note.encode(), 0)
            except OSError as error:
                raise StateDirUnsafe(self._path.parent, f"cannot be used: {error.strerror}") from error

    def hand_over(self) -> None:
        """Release it at once, even if a runner that has just been forked has not closed it yet."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self.close()

    def close(self) -> None:
        """Also in a forked child: a runner must not hold the lock on behalf of a dead dispatcher."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def take_lock(path: Path) -> HostLock | None:
    """None while another dispatcher holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return HostLock(descriptor, path)
