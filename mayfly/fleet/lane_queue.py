"""The lanes that wait for a slot of this host: listed by the dispatcher, taken one by one by runners that are done.

The list is a file of the state directory. It only names where to go next: whether a runner may work there is decided
by the tables (`enter_lane` in mayfly.fleet.runners), because other hosts start runners, too.
"""

import fcntl
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mayfly import json_text
from mayfly.clock import monotonic, pause_between

LOCK_TIMEOUT_SECONDS = 0.1  # a process that was stopped while it held the lock must not stop the others
LOCK_POLL_SECONDS = (0.0005, 0.0015)
MAX_RECORD_BYTES = 1024  # more than a name of 64 characters and three numbers
_POSITION = struct.Struct("=qq")  # of the next record, and its number in the list


class WaitingLane(NamedTuple):
    lane: str
    number: int  # by which the dispatcher recognises it on the status page of a runner; not 0
    settings: str  # only a runner whose lane has the same ones may take it
    begins_with: int | None = None  # a job that a guard has interrupted: the first one to run


class LaneQueue:
    """First in, first out. A runner takes only the first lane: others with its settings may have a worse rank."""

    def __init__(self, path: Path, *, creates: bool = False) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if creates else 0), 0o600)

    def replace(self, new: Callable[[int], Sequence[WaitingLane]]) -> None:
        """List other lanes; `new` is called with the number of lanes that were taken from the last list.

        Nothing changes if another process does not release the file.
        """
        with self._locked() as is_locked:
            if is_locked:
                records = b"".join(json_text.encode(lane).encode() + b"\n" for lane in new(self.taken))
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, _POSITION.pack(_POSITION.size, 0) + records, 0)

    @property
    def taken(self) -> int:
        _next, taken = self._position()
        return taken

    def take(self, settings: str) -> WaitingLane | None:
        """The first lane, if it has these settings."""
        with self._locked() as is_locked:
            if not is_locked:
                return None
            begin, taken = self._position()
            record = os.pread(self._file, MAX_RECORD_BYTES, begin).partition(b"\n")[0]
            if not record:
                return None
            waiting = WaitingLane(*json_text.decode(record.decode()))
            if waiting.settings != settings:
                return None
            os.pwrite(self._file, _POSITION.pack(begin + len(record) + 1, taken + 1), 0)
            return waiting

    def remove(self) -> None:
        os.close(self._file)
        self._path.unlink(missing_ok=True)

    def _position(self) -> tuple[int, int]:
        stored = os.pread(self._file, _POSITION.size, 0)
        return _POSITION.unpack(stored) if len(stored) == _POSITION.size else (_POSITION.size, 0)

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        until = monotonic() + LOCK_TIMEOUT_SECONDS
        while not (is_locked := self._try_lock()) and monotonic() < until:
            pause_between(*LOCK_POLL_SECONDS)
        try:
            yield is_locked
        finally:
            if is_locked:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _try_lock(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def open_queue(path: Path) -> LaneQueue | None:
    """None if no lane waits."""
    try:
        return LaneQueue(path)
    except FileNotFoundError:
        return None
