"""Take turns at claiming: one runner of a lane and host at a time.

A claim passes over every row that somebody else has locked, and looks at each of them: five at once cost the server
half as much again a job. Alone, it takes neighbours, which are updated as ranges. This only saves work: who waits too
long for his turn claims all the same.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from mayfly.clock import monotonic, pause_between
from mayfly.statedir import turns_path

PATIENCE_SECONDS = 0.1
POLL_SECONDS = (0.0005, 0.0015)


class Turns:
    """The locks are bytes of one file, one for each lane, and end with the process that has them."""

    def __init__(self, directory: Path, lane: str) -> None:
        self._file = os.open(turns_path(directory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._place = crc32(lane.encode())

    @contextmanager
    def turn(self) -> Iterator[None]:
        has_it = self._wait()
        try:
            yield
        finally:
            if has_it:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, self._place)

    def _wait(self) -> bool:
        until = monotonic() + PATIENCE_SECONDS
        while not (has_it := self._take()) and monotonic() < until:
            pause_between(*POLL_SECONDS)
        return has_it

    def _take(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except BlockingIOError:
            return False
        return True
