"""Count what was settled, and keep the figures of each cycle: the source of every chart and estimate."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.job import Job
from mayfly.jobs.settlement import Settlement, Settler
from mayfly.outcome import Kind
from mayfly.tally import Count, Key, Sample, Tally, add, bucket, count_samples, histogram_text, parse_histogram
from mayfly.usual import Usual, usual_of

MILLISECOND = timedelta(milliseconds=1)
KEY = ("cycle_id", "lane", "type", "outcome", "worker_id")
FIGURES = ("jobs", "durations", "waits")
ADDED_UP = ""  # the writer's name on totals that stand for the whole cycle

RECENT = timedelta(days=1)
MOST_RECENT = 2000  # rows: what a cycle may spend on the past, however many types and hosts there are

RECENT_TOTALS = (
    "SELECT lane, type, outcome, durations FROM mayfly_totals WHERE cycle_id >= :since"
    f" ORDER BY cycle_id DESC LIMIT {MOST_RECENT}"
)
OF_CYCLE = "SELECT lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = :cycle_id"


def count_settled(
    connection: Connection, settler: Settler, settled: Sequence[Settlement], now: datetime, tally: Tally
) -> Tally:
    """Add to what this process has counted so far, and write the new figures."""
    return add_to_totals(connection, settler, tally, count(settled, now))


def add_to_totals(connection: Connection, settler: Settler, before: Tally, counted: Mapping[Key, Count]) -> Tally:
    total = add(before, counted)
    write_totals(connection, settler.cycle_id, settler.counted_as, {key: total[key] for key in counted})
    return total


def write_totals(connection: Connection, cycle_id: int, counted_as: str, tally: Tally) -> None:
    """Absolute figures of one writer: writing them twice changes nothing."""
    if not tally:
        return
    rows = [
        {
            **_key_columns(key),
            "cycle_id": cycle_id,
            "worker_id": counted_as,
            "jobs": count.jobs,
            "durations": histogram_text(count.durations),
            "waits": histogram_text(count.waits),
        }
        for key, count in sorted(tally.items())
    ]
    connection.execute_many(connection.dialect.upsert("mayfly_totals", KEY, (*KEY, *FIGURES)), rows)


def add_up_totals(connection: Connection, cycle_id: int) -> Tally:
    """Replace what each runner wrote by one row a lane, type and outcome. Who reads before, adds up himself."""
    tally: dict[Key, Count] = {}
    found = connection.execute(OF_CYCLE, {"cycle_id": cycle_id}).all()
    for lane, type_name, outcome, jobs, durations, waits in found:
        count = Count(jobs, parse_histogram(durations), parse_histogram(waits))
        tally = add(tally, {(lane, type_name, outcome): count})
    connection.execute("DELETE FROM mayfly_totals WHERE cycle_id = :cycle_id", {"cycle_id": cycle_id})
    write_totals(connection, cycle_id, ADDED_UP, tally)
    return tally


def read_usual(connection: Connection, now: datetime) -> Usual:
    """How long jobs take, by what the last cycles counted."""
    return usual_of(connection.execute(RECENT_TOTALS, {"since": milliseconds(now - RECENT)}).all())


def _key_columns(key: Key) -> dict[str, str]:
    lane, type_name, outcome = key
    return {"lane": lane, "type": type_name, "outcome": outcome}


def count(settlements: Iterable[Settlement], now: datetime) -> dict[Key, Count]:
    alike: defaultdict[tuple[str, Kind, int | None], list[Job]] = defaultdict(list)
    for job, outcome, duration_ms in settlements:
        alike[job.type, outcome.kind, duration_ms].append(job)
    return count_samples(
        sample
        for (_type, kind, duration_ms), jobs in alike.items()
        for sample in _samples(jobs, kind, duration_ms, now)
    )


def _samples(jobs: Sequence[Job], kind: Kind, duration_ms: int | None, now: datetime) -> Iterator[Sample]:
    """One for all of them where the longest and the shortest wait are alike: a backlog's mostly are."""
    key = (jobs[0].lane, jobs[0].type, kind.value)
    due = [job.run_at for job in jobs if job.run_at is not None and duration_ms is not None]
    if len(due) < len(jobs):
        yield key, duration_ms, None, len(jobs) - len(due)
    if not due:
        return

    def waited_ms(run_at: datetime) -> int:
        return max(0, (now - run_at) // MILLISECOND - (duration_ms or 0))

    longest, shortest = waited_ms(min(due)), waited_ms(max(due))
    if bucket(longest) == bucket(shortest):
        yield key, duration_ms, longest, len(due)
    else:
        yield from ((key, duration_ms, waited_ms(run_at), 1) for run_at in due)
