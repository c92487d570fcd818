"""Count settled jobs and store the totals of each cycle: the source of charts and metrics."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from mayfly.clock import milliseconds
from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.dialects import utc_from_driver
from mayfly.job import Job
from mayfly.process.status_page import RunnerStatus
from mayfly.queue.outcome import Outcome, OutcomeKind, Settlement, Settler
from mayfly.stats.histograms import Count, Key, Sample, Sum, Tally, add, count_samples, stored_count
from mayfly.stats.history import add_to_counters, add_to_history, of_tally

MILLISECOND = timedelta(milliseconds=1)
KEY = ("cycle_id", "lane", "type", "outcome", "worker_id")
ADDED_UP = ""  # worker_id of totals that stand for the whole cycle
LOST_TOTALS = "lease lost"  # counted like an outcome: a job that had another owner when its runner settled it
STRAY_AGE = timedelta(minutes=10)  # after this, only a runner with a live row can add to a cycle's totals

SELECT_TOTALS = (
    "SELECT worker_id, lane, type, outcome, jobs, durations, waits FROM mayfly_totals WHERE cycle_id = :cycle_id"
)
# A lost runner may still be running, on a host that was suspended or disconnected.
LIVE_WRITERS = (
    "SELECT worker_id FROM mayfly_runners WHERE cycle_id = :cycle_id"
    " AND (finished_at IS NULL OR (ending = 'lost' AND finished_at > :lost_after))"
)
SETTLED_JOBS = (
    "SELECT id, lane, type, duration_ms, run_at, started_at FROM mayfly_jobs"
    " WHERE {ids of id} AND worker_id = :worker_id AND status = 'done'"
)
CYCLE_OF = "SELECT cycle_id FROM mayfly_runners WHERE worker_id = :worker_id"
NOT_ADDED_UP = "SELECT DISTINCT cycle_id FROM mayfly_totals WHERE worker_id > '' AND cycle_id < :before"


def add_to_totals(connection: Connection, settler: Settler, before: Tally, counted: Mapping[Key, Count]) -> Tally:
    """Add to the counts of this process, and write the new totals."""
    total = add(before, counted)
    write_totals(connection, settler.cycle_id, settler.totals_key, {key: total[key] for key in counted})
    return total


def write_totals(connection: Connection, cycle_id: int, totals_key: str, tally: Tally) -> None:
    """Absolute numbers of one process: writing them twice changes nothing."""
    rows = [
        dict(zip(KEY, (cycle_id, *key, totals_key), strict=True)) | count.columns
        for key, count in sorted(tally.items())
    ]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_totals", KEY, rows[0]), rows)


def count_unseen(connection: Connection, worker_id: str, status: RunnerStatus) -> None:
    """Count jobs that a dead runner had settled but not counted: of ack="each", or of job.transaction() in a thread.

    In the runner's own totals. If these differ from the status page, its last totals were committed just before it
    died, or this call is a repetition.
    """
    ids = {*status.uncounted, *status.cleared, *(each.job_id for each in status.running)}
    settled = connection.execute(SETTLED_JOBS, {"worker_id": worker_id}, ids).all() if ids else []
    cycle_id = connection.execute(CYCLE_OF, {"worker_id": worker_id}).scalar() if settled else None
    if cycle_id is None:  # nothing to count, or it is so old that its row was pruned
        return
    totals = connection.execute(SELECT_TOTALS, {"cycle_id": cycle_id}).all()
    stored = {
        (lane, name, kind): stored_count(*figures) for by, lane, name, kind, *figures in totals if by == worker_id
    }
    is_counted = sum(each.jobs for each in stored.values()) != status.counted
    counted = count_samples(
        ((lane, type_name, OutcomeKind.DONE.value), duration_ms, _wait_ms(run_at, started_at))
        for job_id, lane, type_name, duration_ms, run_at, started_at in settled
        if not (is_counted and job_id in status.uncounted)
    )
    add_to_totals(connection, Settler(worker_id, cycle_id, worker_id), stored, counted)


def add_up_totals(connection: Connection, cycle_id: int, now: datetime) -> Tally:
    """Replace the rows of all runners by one row per lane, type and outcome. Until then readers add them up.

    The rows of a runner that is still working are kept: its next write has everything that it has counted so far.
    """
    live = {"cycle_id": cycle_id, "lost_after": now - STRAY_AGE}
    working = set(connection.execute(LIVE_WRITERS, live).scalars())
    tally, ended, new = Sum(), Sum(), Sum()
    writers = set()
    # Locked: of two hosts that add up the same cycle, the second waits and finds what the first has left.
    found = connection.execute(f"{SELECT_TOTALS}{connection.dialect.row_lock}", {"cycle_id": cycle_id}).all()
    for worker_id, lane, type_name, outcome, *figures in found:
        key, count = (lane, type_name, outcome), stored_count(*figures)
        tally.add(key, count)
        if worker_id not in working:
            writers.add(worker_id)
            ended.add(key, count)
            if worker_id != ADDED_UP:
                new.add(key, count)
    if new:
        values = numbered_parameters(sorted(writers))
        replaced = f"cycle_id = :cycle_id AND worker_id IN ({placeholders(values)})"
        connection.execute(f"DELETE FROM mayfly_totals WHERE {replaced}", {**values, "cycle_id": cycle_id})
        write_totals(connection, cycle_id, ADDED_UP, ended)
        add_to_counters(connection, new)
        add_to_history(connection, of_tally(cycle_id, new))
    return tally


def add_up_strays(connection: Connection, now: datetime) -> None:
    """The totals of cycles whose dispatcher was killed, or whose runners outlived it."""
    for cycle_id in connection.execute(NOT_ADDED_UP, {"before": milliseconds(now - STRAY_AGE)}).scalars():
        add_up_totals(connection, cycle_id, now)


def _wait_ms(run_at: Any, started_at: Any) -> int:
    """From times as the driver returns them."""
    return max(0, (utc_from_driver(started_at) - utc_from_driver(run_at)) // MILLISECOND)


def count(settlements: Iterable[Settlement], now: datetime) -> dict[Key, Count]:
    return count_samples(_sample(each.job, each.outcome, each.duration_ms, now) for each in settlements)


def _sample(job: Job, outcome: Outcome, duration_ms: int | None, now: datetime) -> Sample:
    """The wait of a job is the time since run_at minus its own duration. A job that never started has no figures."""
    key = (job.lane, job.type, outcome.kind.value)
    if job.run_at is None or duration_ms is None:
        return key, duration_ms, None
    return key, duration_ms, max(0, (now - job.run_at) // MILLISECOND - duration_ms)
