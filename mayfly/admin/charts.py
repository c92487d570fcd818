"""Figures over time: throughput, failures, waits and cycles, in as many points as fit a chart."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.admin.jobs import facts_of, first_line, isoformat
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.outcome import OutcomeKind
from mayfly.queue.prune import EIGHT_HOURS, MINUTE, QUARTER, TWO_HOURS
from mayfly.stats.histograms import percentile
from mayfly.stats.history import CYCLE, Sample, begin_of, of_cycles

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAILURE_KINDS = (
    OutcomeKind.FAILED,
    OutcomeKind.TIMED_OUT,
    OutcomeKind.CRASHED,
)  # of attempts; the job has others left

# Waits of jobs, durations of cycles: reading both of both would take twice as long. Totals of the last minutes, which
# no cycle has added up yet, are in no span and are read from their own rows.
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
        """When each point begins, in milliseconds. The last one covers at least a minute."""
        last = begin_of(milliseconds(now) - MINUTE * 1000, self.step)
        return [last - number * self.step * 1000 for number in reversed(range(self.points))]


PERIODS = {
    each.name: each
    for each in (
        Period("1h", "the last hour", MINUTE, MINUTE, 60),
        Period("24h", "the last 24 hours", QUARTER, QUARTER, 96),
        Period("7d", "the last 7 days", TWO_HOURS, TWO_HOURS, 84),
        Period("30d", "the last 30 days", EIGHT_HOURS, EIGHT_HOURS, 90),
    )
}


class ChartPoint(NamedTuple):
    begins_at: datetime
    minutes: float  # its length
    done: int = 0
    failed: int = 0  # attempts
    dead: int = 0
    wait_p50_ms: int | None = None  # from due to started
    wait_p95_ms: int | None = None
    cycles: int = 0
    cycle_p50_ms: int | None = None  # durations
    cycle_p95_ms: int | None = None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class History(NamedTuple):
    period: Period
    points: tuple[ChartPoint, ...]  # the oldest first

    @property
    def is_empty(self) -> bool:
        return not any(each.cycles or each.done or each.failed or each.dead for each in self.points)

    def facts(self) -> dict[str, Any]:
        since = isoformat(self.points[0].begins_at)
        return {"period": self.period.name, "since": since, "points": [each.facts() for each in self.points]}


# Millisecond, outcome, number, and a histogram: waits of jobs or durations of cycles. Its keys stay text as in JSON:
# converting them costs more than all the rest, and is needed once per point.
Row = tuple[int, str, int, Mapping[str, int]]


def read_history(connection: Connection, period: Period, now: datetime) -> History:
    """Two queries of a bounded number of rows: one per span and outcome, however many lanes and hosts there are."""
    since = {"since": period.begins(now)[0]}
    found = connection.execute(COUNTED, {**since, "span": period.span}).all()
    counted = ((int(at), outcome, int(jobs), json_text.decode(text)) for at, outcome, jobs, text in found)
    recent = rows_of(of_cycles(dict(connection.execute(CYCLES, since).all())))
    return History(period, tuple(points_of([*counted, *recent], period, now)))


def rows_of(samples: Iterable[Sample]) -> Iterator[Row]:
    """In the form of rows of the history table."""
    for at, outcome, count in samples:
        histogram = count.durations if outcome == CYCLE else count.waits
        yield at, outcome, count.jobs, {str(bound): number for bound, number in histogram.items()}


def points_of(rows: Iterable[Row], period: Period, now: datetime) -> Iterator[ChartPoint]:
    """One per step, also where nothing happened. Pure."""
    steps = {at: _ChartStep() for at in period.begins(now)}
    for at, outcome, jobs, histogram in rows:
        step = steps.get(begin_of(at, period.step))
        if step is not None:
            step.add(outcome, jobs, histogram)
    for at, step in steps.items():
        lasted = min(period.step * 1000, milliseconds(now) - at)
        yield step.point(EPOCH + at * MILLISECOND, lasted / 60_000)


class _ChartStep:
    """The sums of one point."""

    def __init__(self) -> None:
        self._jobs: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()
        self._cycles: Counter[str] = Counter()

    def add(self, outcome: str, jobs: int, histogram: Mapping[str, int]) -> None:
        self._jobs[outcome] += jobs
        (self._cycles if outcome == CYCLE else self._waits).update(histogram)

    def point(self, begins_at: datetime, minutes: float) -> ChartPoint:
        jobs, waits, cycles = self._jobs, _numbered(self._waits), _numbered(self._cycles)
        return ChartPoint(
            begins_at,
            minutes,
            done=jobs[OutcomeKind.DONE],
            failed=sum(jobs[each] for each in FAILURE_KINDS),
            dead=jobs[OutcomeKind.DEAD],
            wait_p50_ms=percentile(waits, 0.5),
            wait_p95_ms=percentile(waits, 0.95),
            cycles=jobs[CYCLE],
            cycle_p50_ms=percentile(cycles, 0.5),
            cycle_p95_ms=percentile(cycles, 0.95),
        )


def _numbered(histogram: Mapping[str, int]) -> dict[int, int]:
    return {int(bound): number for bound, number in histogram.items()}


LAST_HOUR = timedelta(hours=1)
STEP_SECONDS, STEPS = 120, 30
MAX_SHOWN = 20  # types of newly dead jobs
MAX_ATTEMPTS_READ = 200  # the last failed ones: they have the errors of most dead jobs
ERROR_READ = 500

_STEP = f"cycle_id - cycle_id % {STEP_SECONDS * 1000}"  # steps of one minute would return twice the rows
DONE_BY_LANE = (
    f"SELECT lane, {_STEP}, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DONE.value}' GROUP BY lane, {_STEP}"
)
DEAD_BY_TYPE = (
    "SELECT lane, type, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{OutcomeKind.DEAD.value}' GROUP BY lane, type"
    f" ORDER BY SUM(jobs) DESC, lane, type LIMIT {MAX_SHOWN}"
)


def read_sparks(connection: Connection, now: datetime) -> dict[str, tuple[int, ...]]:
    """Jobs done per lane in each of 30 steps of two minutes, the oldest first; lanes without any are missing."""
    first = begin_of(milliseconds(now), STEP_SECONDS) - (STEPS - 1) * STEP_SECONDS * 1000
    found: dict[str, list[int]] = {}
    for lane, begins, jobs in connection.execute(DONE_BY_LANE, {"since": first}).all():
        place = (int(begins) - first) // (STEP_SECONDS * 1000)
        if place < STEPS:
            found.setdefault(lane, [0] * STEPS)[place] += int(jobs)
    return {lane: tuple(steps) for lane, steps in found.items()}


class NewlyDead(NamedTuple):
    lane: str
    type: str
    jobs: int
    newest_id: int | None = None  # of the jobs whose error was found
    error: str | None = None
    died_at: datetime | None = None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


def list_newly_dead(connection: Connection, now: datetime) -> list[NewlyDead]:
    """By lane and type, of the last hour, most first: exact numbers, with the newest error where it was found."""
    since = now - LAST_HOUR
    found = connection.execute(DEAD_BY_TYPE, {"since": milliseconds(since)}).all()
    if not found:
        return []
    newest: dict[tuple[str, str], tuple[Any, ...]] = {}
    rows = connection.execute(newest_statement(), {"since": since, "size": MAX_ATTEMPTS_READ}).all()
    for lane, type_name, job_id, error, died_at in rows:
        newest.setdefault((lane, type_name), (job_id, first_line(error), utc_from_driver(died_at)))
    return [
        NewlyDead(lane, type_name, int(number), *newest.get((lane, type_name), ()))
        for lane, type_name, number in found
    ]


@cache
def newest_statement() -> str:
    last = (
        f"SELECT id, job_id, SUBSTR(error, 1, {ERROR_READ}) AS message, finished_at FROM mayfly_attempts"
        " WHERE finished_at >= :since ORDER BY finished_at DESC LIMIT :size"
    )
    return (
        f"SELECT j.lane, j.type, j.id, a.message, a.finished_at FROM ({last}) AS a"
        f" JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.status = 'dead'"
        " ORDER BY a.finished_at DESC"
    )
