"""Figures of the recent past: series for charts, jobs per lane and type, and failures by error."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.admin.filters import newest_failures
from mayfly.admin.jobs import ERROR_SHOWN, first_line
from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.outcome import OutcomeKind
from mayfly.queue.prune import EIGHT_HOURS, MINUTE, QUARTER, TWO_HOURS
from mayfly.stats.histograms import percentile
from mayfly.stats.history import CYCLE, Sample, begin_of, of_cycles

MILLISECOND = timedelta(milliseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAILURE_KINDS = [kind for kind in OutcomeKind if kind.is_failure]

# Waits of jobs and durations of cycles only: reading both for both takes twice as long. The totals of the last
# minutes are not in mayfly_history yet and are read from mayfly_totals.
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
    name: str
    words: str
    span: int  # of the rows it is read from, in seconds
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


class History(NamedTuple):
    period: Period
    points: tuple[ChartPoint, ...]  # the oldest first

    @property
    def is_empty(self) -> bool:
        return not any(each.cycles or each.done or each.failed or each.dead for each in self.points)


# Millisecond, outcome, number, and a histogram of waits (jobs) or durations (cycles). Its keys stay text as in JSON:
# converting them is expensive, and only needed once per point.
Row = tuple[int, str, int, Mapping[str, int]]


def read_history(connection: Connection, period: Period, now: datetime) -> History:
    """Two queries with one row per span and outcome, independent of the number of lanes and hosts."""
    since = {"since": period.begins(now)[0]}
    found = connection.execute(COUNTED, {**since, "span": period.span}).all()
    counted = ((int(at), outcome, int(jobs), json_text.decode(text)) for at, outcome, jobs, text in found)
    recent = rows_of(of_cycles(dict(connection.execute(CYCLES, since).all())))
    return History(period, tuple(points_of([*counted, *recent], period, now)))


def rows_of(samples: Iterable[Sample]) -> Iterator[Row]:
    for at, outcome, count in samples:
        histogram = count.durations if outcome == CYCLE else count.waits
        yield at, outcome, count.jobs, {str(bound): number for bound, number in histogram.items()}


def points_of(rows: Iterable[Row], period: Period, now: datetime) -> Iterator[ChartPoint]:
    """One point per step, including empty ones. Pure."""
    steps = {at: _ChartStep() for at in period.begins(now)}
    for at, outcome, jobs, histogram in rows:
        step = steps.get(begin_of(at, period.step))
        if step is not None:
            step.add(outcome, jobs, histogram)
    for at, step in steps.items():
        lasted = min(period.step * 1000, milliseconds(now) - at)
        yield step.point(EPOCH + at * MILLISECOND, lasted / 60_000)


class _ChartStep:
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
MAX_ATTEMPTS_READ = 200  # of each outcome, the newest: they have the errors of most dead jobs

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
_NEWEST = newest_failures(f"job_id, SUBSTR(error, 1, {ERROR_SHOWN}) AS message, finished_at", MAX_ATTEMPTS_READ)
NEWEST_ERRORS = (
    f"SELECT j.lane, j.type, j.id, a.message, a.finished_at FROM {_NEWEST} AS a"
    " JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.status = 'dead' ORDER BY a.finished_at DESC"
)


def read_sparks(connection: Connection, now: datetime) -> dict[str, tuple[int, ...]]:
    """Jobs done per lane in 30 steps of two minutes, the oldest first; lanes without done jobs are missing."""
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


def list_newly_dead(connection: Connection, now: datetime) -> list[NewlyDead]:
    """Jobs that died in the last hour, by lane and type, the largest number first, with the newest error if found."""
    since = now - LAST_HOUR
    found = connection.execute(DEAD_BY_TYPE, {"since": milliseconds(since)}).all()
    if not found:
        return []
    newest: dict[tuple[str, str], tuple[Any, ...]] = {}
    rows = connection.execute(NEWEST_ERRORS, {"since": since}).all()
    for lane, type_name, job_id, error, died_at in rows:
        newest.setdefault((lane, type_name), (job_id, first_line(error), utc_from_driver(died_at)))
    return [
        NewlyDead(lane, type_name, int(number), *newest.get((lane, type_name), ()))
        for lane, type_name, number in found
    ]


# --- types --------------------------------------------------------------------------------------------------

MAX_FAILURES_READ = 1_000  # of each outcome, the newest of all types
DAY = timedelta(days=1)
OUTCOMES_BY_TYPE = (
    "SELECT type, outcome, SUM(jobs) FROM mayfly_totals WHERE cycle_id >= :since GROUP BY type, outcome"
)
TYPE_TOTALS = (
    "SELECT outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id >= :since AND type = :type"
)  # fmt: skip
_FAILURES = newest_failures(
    f"job_id, fingerprint, SUBSTR(error, 1, {ERROR_SHOWN}) AS message, finished_at", MAX_FAILURES_READ
)
TYPE_FAILURES = (
    f"SELECT a.fingerprint, j.id, a.message, a.finished_at FROM {_FAILURES} AS a"
    " JOIN mayfly_jobs AS j ON j.id = a.job_id WHERE j.type = :type ORDER BY a.finished_at DESC"
)


class TypeFigures(NamedTuple):
    """Of the last hour."""

    type: str
    done: int = 0
    failed: int = 0  # attempts
    dead: int = 0
    duration_p50_ms: int | None = None  # of all runs that ended
    duration_p95_ms: int | None = None
    wait_p50_ms: int | None = None  # from due to started
    wait_p95_ms: int | None = None

    @property
    def done_per_minute(self) -> float:
        return self.done / (LAST_HOUR / timedelta(minutes=1))


class TypeFailure(NamedTuple):
    """Failed attempts of a type with one error."""

    error: str  # fingerprint
    attempts: int
    message: str | None  # of the newest
    newest_id: int
    last_at: datetime


def list_types(connection: Connection, now: datetime) -> list[TypeFigures]:
    """Types with outcomes in the last hour, by name, without durations and waits."""
    counted: dict[str, Counter[str]] = {}
    since = milliseconds(now - LAST_HOUR)
    for type_name, outcome, jobs in connection.execute(OUTCOMES_BY_TYPE, {"since": since}).all():
        counted.setdefault(type_name, Counter())[outcome] += int(jobs)
    return [_type_figures(name, jobs) for name, jobs in sorted(counted.items())]


def read_type(connection: Connection, type_name: str, now: datetime) -> TypeFigures:
    jobs, durations, waits = Counter[str](), Counter[str](), Counter[str]()
    since = milliseconds(now - LAST_HOUR)
    rows = connection.execute(TYPE_TOTALS, {"since": since, "type": type_name}).all()
    for outcome, number, took, waited in rows:
        jobs[outcome] += int(number)
        durations.update(json_text.decode(took))
        waits.update(json_text.decode(waited))
    percentiles = [percentile(_numbered(each), part) for each in (durations, waits) for part in (0.5, 0.95)]
    return TypeFigures(*_type_figures(type_name, jobs)[:4], *percentiles)


def _type_figures(type_name: str, jobs: Mapping[str, int]) -> TypeFigures:
    failed = sum(jobs.get(each, 0) for each in FAILURE_KINDS)
    return TypeFigures(type_name, jobs.get(OutcomeKind.DONE, 0), failed, jobs.get(OutcomeKind.DEAD, 0))


def list_type_failures(connection: Connection, type_name: str, now: datetime) -> list[TypeFailure]:
    """Of the last day, the most frequent error first, among the newest MAX_FAILURES_READ attempts of each outcome."""
    found: dict[str, TypeFailure] = {}
    rows = connection.execute(TYPE_FAILURES, {"since": now - DAY, "type": type_name}).all()
    for error, job_id, message, failed_at in rows:
        new = TypeFailure(error, 0, first_line(message), job_id, utc_from_driver(failed_at))
        known = found.setdefault(error, new)
        found[error] = known._replace(attempts=known.attempts + 1)
    return sorted(found.values(), key=lambda each: -each.attempts)
