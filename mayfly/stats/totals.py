"""Count settled jobs and store the totals of each cycle: the source of charts and metrics."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.job import Job
from mayfly.queue.outcome import OutcomeKind, Settlement, Settler
from mayfly.stats.counters import add_to_counters
from mayfly.stats.histograms import (
    Count,
    Key,
    Sample,
    Tally,
    add,
    bucket,
    count_samples,
    histogram_text,
    stored_count,
)
from mayfly.stats.history import add_to_history, of_tally

MILLISECOND = timedelta(milliseconds=1)
KEY = ("cycle_id", "lane", "type", "outcome", "worker_id")
FIGURES = ("jobs", "durations", "waits")
ADDED_UP = ""  # worker_id of totals that stand for the whole cycle
LOST_TOTALS = "lease lost"  # counted like an outcome: a job that had another owner when it was to be settled
STRAYS = timedelta(minutes=10)  # after this, only a runner with a live row can add to a cycle's totals

SELECT_TOTALS = (
    "SELECT worker_id, lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = :cycle_id"
)
LIVE_WRITERS = "SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL AND cycle_id = :cycle_id"
NOT_ADDED_UP = "SELECT DISTINCT cycle_id FROM mayfly_totals WHERE worker_id > '' AND cycle_id < :before"


def add_to_totals(connection: Connection, settler: Settler, before: Tally, counted: Mapping[Key, Count]) -> Tally:
    """Add to what this process has counted so far, and write the new totals."""
    total = add(before, counted)
    write_totals(connection, settler.cycle_id, settler.totals_key, {key: total[key] for key in counted})
    return total


def write_totals(connection: Connection, cycle_id: int, totals_key: str, tally: Tally) -> None:
    """Absolute numbers of one process: writing them twice changes nothing."""
    if not tally:
        return
    rows = [
        {
            **_key_columns(key),
            "cycle_id": cycle_id,
            "worker_id": totals_key,
            "jobs": count.jobs,
            "durations": histogram_text(count.durations),
            "waits": histogram_text(count.waits),
        }
        for key, count in sorted(tally.items())
    ]
    connection.execute_many(connection.dialect.upsert("mayfly_totals", KEY, (*KEY, *FIGURES)), rows)


def add_up_totals(connection: Connection, cycle_id: int) -> Tally:
    """Replace the rows of each runner by one row per lane, type and outcome. Earlier readers add them up themselves.

    The rows of a runner that is still working stay: it would write them again, with what it had counted before.
    """
    working = set(connection.execute(LIVE_WRITERS, {"cycle_id": cycle_id}).scalars())
    tally: dict[Key, Count] = {}
    ended: dict[Key, Count] = {}
    new: dict[Key, Count] = {}
    writers = set()
    for worker_id, lane, type_name, outcome, *figures in connection.execute(
        SELECT_TOTALS, {"cycle_id": cycle_id}
    ).all():
        one = {(lane, type_name, outcome): stored_count(*figures)}
        tally = add(tally, one)
        if worker_id not in working:
            writers.add(worker_id)
            ended = add(ended, one)
            new = add(new, one) if worker_id != ADDED_UP else new
    if new:
        replaced = [{"cycle_id": cycle_id, "worker_id": each} for each in sorted(writers)]
        connection.execute_many(
            "DELETE FROM mayfly_totals WHERE cycle_id = :cycle_id AND worker_id = :worker_id", replaced
        )
        write_totals(connection, cycle_id, ADDED_UP, ended)
        add_to_counters(connection, new)
        add_to_history(connection, of_tally(cycle_id, new))
    return tally


def add_up_strays(connection: Connection, now: datetime) -> None:
    """The totals of cycles whose dispatcher was killed, or whose runners outlived it."""
    for cycle_id in connection.execute(NOT_ADDED_UP, {"before": milliseconds(now - STRAYS)}).scalars():
        add_up_totals(connection, cycle_id)


def _key_columns(key: Key) -> dict[str, str]:
    lane, type_name, outcome = key
    return {"lane": lane, "type": type_name, "outcome": outcome}


def count(settlements: Iterable[Settlement], now: datetime) -> dict[Key, Count]:
    groups: defaultdict[tuple[str, OutcomeKind, int | None], list[Job]] = defaultdict(list)
    for job, outcome, duration_ms in settlements:
        groups[job.type, outcome.kind, duration_ms].append(job)
    return count_samples(
        sample
        for (_type, kind, duration_ms), jobs in groups.items()
        for sample in _samples(jobs, kind, duration_ms, now)
    )


def _samples(jobs: Sequence[Job], kind: OutcomeKind, duration_ms: int | None, now: datetime) -> Iterator[Sample]:
    """One for all of them if the longest and the shortest wait share a bucket, as in a backlog they mostly do."""
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
