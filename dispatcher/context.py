"""What all parts of one cycle share: settings, database, log, directory, and until when the cycle may take.

Every minute imports this, an idle one too.
"""

import signal
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseTooSlow
from mayfly.log import Log
from mayfly.process.identity import Host, Process, this_host, this_process
from mayfly.settings import Settings

if TYPE_CHECKING:
    from mayfly.stats.durations import TypeDurations

LAST_STATEMENTS_SECONDS = 3.0  # after DISPATCH_TIMEOUT, to settle the jobs of killed runners and write the summary
MIN_LINGER_FOR_HANDOVER_SECONDS = 50.0  # with a LINGER of this or more, it lingers until the next dispatcher starts
MAX_HANDOVER_SECONDS = 70.0  # cron may be a few seconds late, and the next dispatcher needs time to start


class StatementDeadline:
    """Bounds the dispatcher's statements by its own clock: a frozen server answers nothing, not even an error.

    One alarm for the whole process. It interrupts a statement and nothing else; later ones are refused at once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def set(self, at: float) -> None:
        if at != self._database.deadline:
            self._database.deadline = at
            signal.signal(signal.SIGALRM, self._on_alarm)
            signal.setitimer(signal.ITIMER_REAL, max(0.001, at - monotonic()))

    def clear(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        if self._database.is_working and monotonic() >= self._database.deadline:
            raise DatabaseTooSlow(self._database.name)


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
        self.only_lanes = only_lanes  # empty: all
        self.statements = StatementDeadline(database)

    @cached_property
    def host(self) -> Host:
        return this_host(self.settings.host_name)

    @cached_property
    def process(self) -> Process:
        return this_process()

    @property
    def deadline(self) -> float:
        """When a runner that starts now is killed at the latest. While lingering, each plan has its own window."""
        now = monotonic()
        begun = now if now < self.lingers_until(self.settings.longest_linger) else self.started
        return begun + self.settings.dispatch_timeout

    def lingers_until(self, linger_seconds: float) -> float:
        is_bridging = linger_seconds >= MIN_LINGER_FOR_HANDOVER_SECONDS
        return self.started + (MAX_HANDOVER_SECONDS if is_bridging else linger_seconds)

    @cached_property
    def usual(self) -> "TypeDurations":
        """How long jobs usually take. Read once a cycle, and not before anybody is started."""
        from mayfly.stats.totals import read_usual  # here: an idle minute does without

        now = self.database.clock.now()
        return self.database.read(lambda connection: read_usual(connection, now))

    def serves(self, lane: str) -> bool:
        return not self.only_lanes or lane in self.only_lanes

    def close(self) -> None:
        """Close the session: the process ends by os._exit, and the server would not notice at once."""
        self.statements.clear()
        self.database.close()
