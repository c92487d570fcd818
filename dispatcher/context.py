"""Bound the dispatcher's statements by its own clock: a frozen server answers nothing, not even an error."""

import random
import signal
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseTooSlow
from mayfly.log import Log
from mayfly.process.identity import Host, Process
from mayfly.queue.policy import Backoff, RetryContext
from mayfly.settings import Settings
from mayfly.stats.durations import TypeDurations
from mayfly.stats.totals import read_usual

LAST_STATEMENTS_SECONDS = 3.0  # after DISPATCH_TIMEOUT, to settle the jobs of killed runners and write the summary


class StatementDeadline:
    """One alarm for the whole process. It interrupts a statement and nothing else; later ones are refused at once."""

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


MIN_LINGER_FOR_HANDOVER_SECONDS = (
    50.0  # seconds of LINGER: who stays that long stays until the next dispatcher has come
)
MAX_HANDOVER_SECONDS = 70.0  # cron is up to a few seconds late, and then a dispatcher has to be imported


@dataclass(frozen=True)
class CycleContext:
    settings: Settings
    database: Database
    log: Log
    directory: Path  # of the lock and the pages
    place: Host
    process: Process
    started: float  # monotonic
    only_lanes: frozenset[str] = field(default_factory=frozenset)  # empty: all

    @property
    def deadline(self) -> float:
        """When whoever is started now is ended at the latest. While we linger, each plan has a window of its own."""
        now = monotonic()
        begun = now if now < self.lingers_until(self.settings.longest_linger) else self.started
        return begun + self.settings.dispatch_timeout

    def lingers_until(self, linger_seconds: float) -> float:
        return self.started + (
            MAX_HANDOVER_SECONDS if linger_seconds >= MIN_LINGER_FOR_HANDOVER_SECONDS else linger_seconds
        )

    @cached_property
    def statements(self) -> StatementDeadline:
        return StatementDeadline(self.database)

    @cached_property
    def usual(self) -> TypeDurations:
        """How long jobs usually take. Read once a cycle, and not before anybody is started."""
        now = self.database.clock.now()
        return self.database.read(lambda connection: read_usual(connection, now))

    def close(self) -> None:
        """No session is left to the server to find out about: the process ends without taking itself down."""
        self.statements.clear()
        self.database.close()

    def serves(self, lane: str) -> bool:
        return not self.only_lanes or lane in self.only_lanes

    def chances(self) -> RetryContext:
        """How jobs of dead runners come back. Their handlers' own backoff is not known here: never imported."""
        usual = Backoff(self.settings.backoff_base, self.settings.backoff_cap)
        return RetryContext(self.database.clock.now(), usual, random.random())  # noqa: S311 - spreads retries
