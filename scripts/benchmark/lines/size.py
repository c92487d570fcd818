"""Claims and idle cycles on a table of ten million rows, against one of ten thousand."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sqlalchemy import text

from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.queue.claim import Claimant, claim
from mayfly.schema.tables import CANCELLED, DONE, PENDING
from scripts.benchmark.figures import Curve, Figure, Finding, alternately, at_most
from scripts.benchmark.lab import Lab
from scripts.benchmark.lines.idle import idle
from scripts.benchmark.rows import Rows, insert_rows
from scripts.benchmark.stage import Failed, Spent, Stage

LARGE, SMALL = 10_000_000, 10_000
DUE = 100
SHARES = {DONE: 0.9, PENDING: 0.09}  # the rest is cancelled, but for those that are due
CLAIMS_PER_RUN = 20
IDLE_PER_RUN = 5
GOAL = at_most(1.3)
CHART = "size"
Found = TypeVar("Found")
PANELS = ("Claim of 100 jobs", "Idle cycle: time", "Idle cycle: CPU")


def measure(lab: Lab) -> Iterator[Finding]:
    """At each size both tables in turns; the figures are those of the largest."""
    large = lab.scaled(LARGE)
    small = min(SMALL, large // 10)
    ratios: dict[str, list[tuple[float, float]]] = {panel: [(small, 1.0)] for panel in PANELS}
    figures: tuple[Figure, ...] = ()
    with lab.stage() as first, lab.stage() as second:
        growing, reference = Table(lab, first), Table(lab, second)
        reference.grow(small)
        for rows in sorted({large // 100, large // 10, large} - set(range(small + 1))):
            growing.grow(rows)
            figures = (_claims(lab, growing, reference), *_idle(lab, growing, reference))
            for panel, figure in zip(PANELS, figures, strict=True):
                ratios[panel].append((rows, figure.ratio or 0))
    yield from figures
    for panel, points in ratios.items():
        yield Curve(CHART, panel, lab.engine.title, tuple(points))


@dataclass
class Table:
    """A table that grows; finished jobs are three days old, delayed ones due in a day, none is due."""

    lab: Lab
    stage: Stage
    next_id: int = 1
    counts: dict[str, int] = field(default_factory=dict)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def grow(self, rows: int) -> None:
        wanted = {status: int(rows * share) for status, share in SHARES.items()}
        wanted[CANCELLED] = max(0, rows - sum(wanted.values()) - DUE)
        for status, count in wanted.items():
            self._add(status, count - self.counts.get(status, 0))
        self.stage.rest()

    def _add(self, status: str, count: int) -> None:
        before = self.counts.get(status, 0)
        age = timedelta(days=-1 if status == PENDING else 3)
        rows = Rows(self.next_id, count, self.started_at - age + timedelta(milliseconds=before), status)

        def said(done: int) -> None:
            self.lab.say(f"filling {before + done:,} {status} rows")

        with self.stage.connect() as connection:
            insert_rows(connection, self.stage.engine, rows, said)
        self.next_id = rows.next_id
        self.counts[status] = before + count

    def with_due(self) -> None:
        with self.stage.connect() as connection:
            rows = Rows(self.next_id, DUE, self.started_at - timedelta(minutes=1))
            insert_rows(connection, self.stage.engine, rows)
        self.stage.rest()

    def without_due(self) -> None:
        with self.stage.connect() as connection:
            connection.execute(text(f"DELETE FROM mayfly_jobs WHERE id >= {self.next_id}"))
        self.stage.rest()

    @property
    def rows(self) -> int:
        return sum(self.counts.values()) + DUE


def _idle(lab: Lab, growing: Table, reference: Table) -> Iterator[Figure]:
    """Cycle by cycle in turns: what the server still does after it was filled must not hit one of them alone."""
    lab.say(f"idle cycles at {growing.rows:,} rows")
    large, small = _warm(lambda: idle(growing.stage), lambda: idle(reference.stage), lab.times * IDLE_PER_RUN)
    for what, seconds in (("time", _wall), ("CPU", _cpu)):
        ours, theirs = (tuple(seconds(each) * 1000 for each in runs) for runs in (large, small))
        yield Figure(f"idle cycle at {_names(lab)}: {what}", "ms", ours, theirs, GOAL)


def _wall(spent: Spent) -> float:
    return spent.seconds


def _cpu(spent: Spent) -> float:
    return spent.cpu_seconds


def _claims(lab: Lab, growing: Table, reference: Table) -> Figure:
    lab.say(f"claims among {growing.rows:,} rows")
    for table in (growing, reference):
        table.with_due()
    with _claiming(growing.stage) as among_many, _claiming(reference.stage) as among_few:
        large, small = _warm(among_many, among_few, lab.times * CLAIMS_PER_RUN)
    for table in (growing, reference):
        table.without_due()
    return Figure(f"claim {DUE} jobs among {_names(lab)}", "ms", tuple(large), tuple(small), GOAL)


def _warm(ours: Callable[[], Found], theirs: Callable[[], Found], times: int) -> tuple[list[Found], list[Found]]:
    """In turns; the first of each is not counted."""
    ours(), theirs()
    return alternately(ours, theirs, times)


def _names(lab: Lab) -> str:
    return f"{lab.scaled(LARGE):,} rows"


class RolledBack(Exception):
    """On purpose."""


@contextmanager
def _claiming(stage: Stage) -> Iterator[Callable[[], float]]:
    """Milliseconds of a claim, which is rolled back: the next one finds the same rows."""
    database = stage.database()
    now = database.clock.now()
    claimant = Claimant("bench", "default", now + timedelta(minutes=1))

    def claim_once() -> float:
        taken, seconds = 0, 0.0

        def claim_in_vain(connection: Connection) -> None:
            nonlocal taken, seconds
            started = monotonic()
            taken = len(claim(connection, claimant, DUE, now).rows)
            seconds = monotonic() - started
            raise RolledBack

        with suppress(RolledBack):
            database.run(claim_in_vain)
        if taken != DUE:
            raise Failed(f"A claim of {DUE} jobs took {taken}.")
        return seconds * 1000

    yield claim_once
    database.close()
