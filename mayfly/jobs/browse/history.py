"""Figures over time: throughput, failures, waits and cycles, in as many points as fit a chart."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.jobs.browse.capped import facts_of, told
from mayfly.jobs.history import CYCLE, Sample, begin_of, of_cycles
from mayfly.jobs.keep import MINUTE, QUARTER, TWO_HOURS
from mayfly.outcome import Kind
from mayfly.tally import Count, parse_histogram, percentile

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAILURES = (Kind.FAILED, Kind.TIMED_OUT, Kind.CRASHED)  # of attempts; the job has others left

# Of jobs their waits, of cycles how long they took: to read what nobody looks at would take as long again. What
# runners have written that is not added up yet is in no span; it is of the last minutes only.
COUNTED = (
    f"SELECT begins, outcome, jobs, CASE WHEN outcome = '{CYCLE}' THEN durations ELSE waits END FROM mayfly_history"
    " WHERE span = :span AND begins >= :since"
    " UNION ALL SELECT cycle_id, outcome, jobs, waits FROM mayfly_totals WHERE worker_id > '' AND cycle_id >= :since"
)
CYCLES = (
    "SELECT id, duration_ms FROM mayfly_cycles WHERE id > (SELECT number FROM mayfly_locks WHERE name = 'counted')"
    " AND id >= :since AND duration_ms IS NOT NULL"
)


class Period(NamedTuple):
    """How far back, and in how many points."""

    name: str
    words: str
    span: int  # of the rows that it is read from, in seconds
    step: int  # of a point
    points: int

    def begins(self, now: datetime) -> list[int]:
        """When each point begins, in milliseconds. The last has lasted for a minute at least."""
        last = begin_of(milliseconds(now) - MINUTE * 1000, self.step)
        return [last - number * self.step * 1000 for number in reversed(range(self.points))]


PERIODS = {
    each.name: each
    for each in (
        Period("1h", "the last hour", MINUTE, MINUTE, 60),
        Period("24h", "the last 24 hours", QUARTER, QUARTER, 96),
        Period("7d", "the last 7 days", TWO_HOURS, TWO_HOURS, 84),
        Period("30d", "the last 30 days", TWO_HOURS, 4 * TWO_HOURS, 90),
    )
}


class Point(NamedTuple):
    begins_at: datetime
    minutes: float  # it has lasted for so long
    done: int = 0
    failed: int = 0  # attempts
    dead: int = 0
    wait_p50_ms: int | None = None  # from when jobs were due to when their handler began
    wait_p95_ms: int | None = None
    cycles: int = 0
    cycle_p50_ms: int | None = None  # how long they took
    cycle_p95_ms: int | None = None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class History(NamedTuple):
    period: Period
    points: tuple[Point, ...]  # the oldest first

    @property
    def is_empty(self) -> bool:
        return not any(each.cycles or each.done or each.failed or each.dead for each in self.points)

    def facts(self) -> dict[str, Any]:
        since = told(self.points[0].begins_at)
        return {"period": self.period.name, "since": since, "points": [each.facts() for each in self.points]}


def read_history(connection: Connection, period: Period, now: datetime) -> History:
    """Two looks at a bounded number of rows: spans times outcomes, whatever lanes, types and hosts there are."""
    since = {"since": period.begins(now)[0]}
    rows = connection.execute(COUNTED, {**since, "span": period.span}).all()
    recent = dict(connection.execute(CYCLES, since).all())
    return History(period, tuple(points_of([*_samples(rows), *of_cycles(recent)], period, now)))


def _samples(rows: Iterable[Sequence[Any]]) -> Iterator[Sample]:
    for at, outcome, jobs, histogram in rows:
        which = "durations" if outcome == CYCLE else "waits"
        yield int(at), outcome, Count(int(jobs), **{which: parse_histogram(histogram)})


class _Step:
    """What is added up of one point."""

    def __init__(self) -> None:
        self.jobs: Counter[str] = Counter()
        self.waits: Counter[int] = Counter()
        self.cycles: Counter[int] = Counter()

    def add(self, outcome: str, count: Count) -> None:
        self.jobs[outcome] += count.jobs
        if outcome == CYCLE:
            self.cycles.update(count.durations)
        else:
            self.waits.update(count.waits)

    def point(self, begins_at: datetime, minutes: float) -> Point:
        return Point(
            begins_at,
            minutes,
            done=self.jobs[Kind.DONE],
            failed=sum(self.jobs[each] for each in FAILURES),
            dead=self.jobs[Kind.DEAD],
            wait_p50_ms=percentile(self.waits, 0.5),
            wait_p95_ms=percentile(self.waits, 0.95),
            cycles=self.jobs[CYCLE],
            cycle_p50_ms=percentile(self.cycles, 0.5),
            cycle_p95_ms=percentile(self.cycles, 0.95),
        )


def points_of(samples: Iterable[Sample], period: Period, now: datetime) -> Iterator[Point]:
    """One for each step, whether or not anything happened in it. Pure."""
    steps = {at: _Step() for at in period.begins(now)}
    for at, outcome, count in samples:
        step = steps.get(begin_of(at, period.step))
        if step is not None:
            step.add(outcome, count)
    for at, step in steps.items():
        lasted = min(period.step * 1000, milliseconds(now) - at)
        yield step.point(EPOCH + at * MILLISECOND, lasted / 60_000)
