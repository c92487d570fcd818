"""Take turns at claiming: one runner of a lane and host at a time, each beginning where the last one ended.

A claim passes over every row that somebody else has locked, and looks at each of them: five at once cost the server
half as much again a job. Alone, it takes neighbours, which are updated as ranges. This only saves work: who waits too
long for his turn claims all the same.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

from mayfly.clock import monotonic, pause_between
from mayfly.jobs.claim import Front
from mayfly.statedir import turns_path

PATIENCE_SECONDS = 0.1
POLL_SECONDS = (0.0005, 0.0015)
FRONT_SECONDS = 1.0  # for so long at most an older job that comes back is not seen
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NOTE = struct.Struct("=dqq")  # monotonic seconds of the last look from the beginning; priority and run_at


class Turns:
    """A small file of each lane. Its lock ends with the process that has it."""

    def __init__(self, directory: Path, lane: str) -> None:
        self._lane = lane.encode()
        number = crc32(self._lane)  # which every file system takes; lanes that share one wait for each other
        self._file = os.open(turns_path(directory, number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def turn(self) -> Iterator[None]:
        has_it = self._wait()
        try:
            yield
        finally:
            if has_it:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _wait(self) -> bool:
        until = monotonic() + PATIENCE_SECONDS
        while not (has_it := self._take()) and monotonic() < until:
            pause_between(*POLL_SECONDS)
        return has_it

    def _take(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def front(self) -> Front | None:
        """Where the next claim may begin; None for one that has to look from the beginning."""
        looked_at, priority, run_at = self._read()
        if not 0 <= monotonic() - looked_at < FRONT_SECONDS:
            return None
        return Front(priority, EPOCH + run_at * MICROSECOND)

    def note(self, before: Front | None, reached: Front | None) -> None:
        """What a claim found that began with the one: as many as it wanted up to the other, or fewer."""
        if reached is None:
            os.ftruncate(self._file, 0)
            return
        looked_at = monotonic() if before is None else self._read()[0]
        noted = NOTE.pack(looked_at, reached.priority, (reached.run_at - EPOCH) // MICROSECOND)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, noted + self._lane, 0)

    def _read(self) -> tuple[float, int, int]:
        """What another lane with the same number has noted is nothing to us."""
        noted = os.pread(self._file, NOTE.size + len(self._lane) + 1, 0)
        return NOTE.unpack_from(noted) if noted[NOTE.size :] == self._lane else (-FRONT_SECONDS, 0, 0)
