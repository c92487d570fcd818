"""Shared by all parts of one cycle: settings, database, log, state directory, the host lock, and the deadlines.

Idle cycles import this module, too.
"""

import fcntl
import os
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import SourceUnusable, StateDirUnsafe
from mayfly.log import Log
from mayfly.process.identity import Host, Process, this_host, this_process
from mayfly.settings import Settings

if TYPE_CHECKING:
    from mayfly.queue.source_table import SourceTable
    from mayfly.queue.sources import Sources

LAST_STATEMENTS_SECONDS = 3.0  # after DISPATCH_TIMEOUT, to settle the jobs of killed runners and write the summary
MIN_LINGER_FOR_HANDOVER_SECONDS = 50.0  # with such a LINGER or more, it lingers until the next dispatcher starts
CLOSED = -1  # instead of a descriptor
MAX_HANDOVER_SECONDS = 70.0  # cron may be a few seconds late, and the next dispatcher needs time to start


class CycleContext:
    def __init__(
        self,
        settings: Settings,
        database: Database,
        log: Log,
        directory: Path,
        started: float,
        only_lanes: frozenset[str] = frozenset(),
    ) -> None:
        self.settings = settings
        self.database = database
        self.log = log
        self.directory = directory  # of the host lock and the status pages
        self.started = started  # monotonic
        self.only_lanes = only_lanes  # empty: all lanes
        self.source_problems: dict[str, str] = {}  # by source: why it cannot be used
        self.tried_sources: set[str] = set()  # by name: a row of them could be claimed

    @cached_property
    def host(self) -> Host:
        return this_host(self.settings.host_name)

    @cached_property
    def process(self) -> Process:
        return this_process()

    @cached_property
    def sources(self) -> "Sources | None":
        if not self.settings.sources:
            return None
        from mayfly.queue.sources import Sources  # most installations have no sources

        return Sources(self.settings.sources.values(), self.database.dialect)

    @property
    def usable_sources(self) -> "list[SourceTable]":
        """Those without a problem in this cycle."""
        tables = self.sources.tables if self.sources else {}
        return [table for name, table in tables.items() if name not in self.source_problems]

    def note_source_problem(self, error: SourceUnusable) -> None:
        """Logged once; its rows wait for the next cycle. Other lanes are not affected."""
        self.log.write(log_messages.source_unusable(str(error)))
        self.source_problems[error.source] = str(error)

    @property
    def duration_ms(self) -> int:
        return round((monotonic() - self.started) * 1000)

    @property
    def deadline(self) -> float:
        """When a runner that starts now is killed at the latest. While lingering, each plan has its own window."""
        now = monotonic()
        begun = now if now < self.lingers_until(self.settings.longest_linger) else self.started
        return begun + self.settings.dispatch_timeout

    def lingers_until(self, linger_seconds: float) -> float:
        hands_over = linger_seconds >= MIN_LINGER_FOR_HANDOVER_SECONDS
        return self.started + (MAX_HANDOVER_SECONDS if hands_over else linger_seconds)

    def serves(self, lane: str) -> bool:
        return not self.only_lanes or lane in self.only_lanes

    def close(self) -> None:
        """Close the session: the process exits with os._exit, and the server would not notice that at once."""
        self.database.set_deadline(inf)
        self.database.close()


class HostLock:
    """One dispatcher per host and database. The kernel releases the lock when the process exits."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def sign(self, note: str) -> None:
        """Write into the file which process holds the lock (see `Dispatcher` in mayfly.fleet.cycles)."""
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, note.encode(), 0)
        except OSError as error:
            raise StateDirUnsafe(self._path.parent, f"cannot be used: {error.strerror}") from error

    def hand_over(self) -> None:
        """Release it at once, even if a runner that has just been forked has not closed it yet."""
        os.ftruncate(self._descriptor, 0)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        """Also called in a forked child: a runner must not keep the lock of a dead dispatcher."""
        if self._descriptor != CLOSED:
            os.close(self._descriptor)
            self._descriptor = CLOSED


def take_lock(path: Path) -> HostLock | None:
    """None while another dispatcher holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return HostLock(descriptor, path)
