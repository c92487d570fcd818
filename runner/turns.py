"""Take turns at claiming: two runners of a host at a time, each on rows that the others are not just locking.

A claim passes over every row that somebody else has locked, and looks at each of them: five at once cost the server
half as much again a job as two. This only saves work. Who waits too long for his turn claims all the same.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from mayfly.clock import monotonic, pause_between
from mayfly.statedir import turns_path

AT_ONCE = 2
PATIENCE_SECONDS = 0.1
POLL_SECONDS = (0.0005, 0.0015)


class Turns:
    """The locks are bytes of one file, some for each lane, and end with the process that has them."""

    def __init__(self, directory: Path, lane: str) -> None:
        self._file = os.open(turns_path(directory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        first = crc32(lane.encode()) * AT_ONCE
        self._places = range(first, first + AT_ONCE)

    @contextmanager
    def turn(self) -> Iterator[None]:
        place = self._wait()
        try:
            yield
        finally:
            if place is not None:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _wait(self) -> int | None:
        until = monotonic() + PATIENCE_SECONDS
        while (place := self._take()) is None and monotonic() < until:
            pause_between(*POLL_SECONDS)
        return place

    def _take(self) -> int | None:
        for place in self._places:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except BlockingIOError:
                continue
            return place
        return None
