"""What one cycle works with: settings, the database, the log, and where and when it runs."""

import random
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dispatcher.deadline import StatementDeadline
from mayfly.backoff import Backoff
from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.fleet.place import Place, Process
from mayfly.jobs.totals import read_usual
from mayfly.logs import Log
from mayfly.settings import Settings
from mayfly.usual import Usual
from mayfly.verdict import Chances

BRIDGES_FROM = 50.0  # seconds of LINGER: who stays that long stays until the next dispatcher has come
BRIDGE_UNTIL = 70.0  # cron is up to a few seconds late, and then a dispatcher has to be imported


@dataclass(frozen=True)
class World:
    settings: Settings
    database: Database
    log: Log
    directory: Path  # of the lock and the pages
    place: Place
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
        return self.started + (BRIDGE_UNTIL if linger_seconds >= BRIDGES_FROM else linger_seconds)

    @cached_property
    def statements(self) -> StatementDeadline:
        return StatementDeadline(self.database)

    @cached_property
    def usual(self) -> Usual:
        """How long jobs usually take. Read once a cycle, and not before anybody is started."""
        now = self.database.clock.now()
        return self.database.read(lambda connection: read_usual(connection, now))

    def close(self) -> None:
        """No session is left to the server to find out about: the process ends without taking itself down."""
        self.statements.clear()
        self.database.close()

    def serves(self, lane: str) -> bool:
        return not self.only_lanes or lane in self.only_lanes

    def chances(self) -> Chances:
        """How jobs of dead runners come back. Their handlers' own backoff is not known here: never imported."""
        usual = Backoff(self.settings.backoff_base, self.settings.backoff_cap)
        return Chances(self.database.clock.now(), usual, random.random())  # noqa: S311 - spreads retries
