"""Delete old rows of all tables in small slices, each in its own commit, a bounded number per cycle."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.database import Database
from mayfly.queue.count import JobGroup, job_groups
from mayfly.schema.tables import ATTEMPT_OUTCOMES, CANCELLED, DEAD, DONE
from mayfly.settings import Settings

SLICE = 500
SLICES_PER_CYCLE = 20
REQUEST_DAYS = 1  # how long an HTTP client may repeat a request with the same Idempotency-Key
NEVER_SEALED = "completed_at IS NULL AND sealed_at IS NULL AND created_at < :before"  # its producer has died
DELETE_STEPS = "DELETE FROM mayfly_chains WHERE job_id"  # steps that never ran
CUTOFF_STEPS = 100  # see `cutoff`

# The intervals of mayfly_history in seconds, each a multiple of the one before it. Rows that no chart shows any more
# are pruned, those of the longest span with the cycles; in steps of days, so that most cycles find nothing to prune.
MINUTE, QUARTER, TWO_HOURS, EIGHT_HOURS = 60, 900, 7200, 28_800
SPANS = (MINUTE, QUARTER, TWO_HOURS, EIGHT_HOURS)
CHARTED = {MINUTE: timedelta(hours=2), QUARTER: timedelta(days=1, hours=1), TWO_HOURS: timedelta(days=7, hours=4)}
DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cutoff(now: datetime, days: float) -> datetime:
    """Rows that are older may be deleted.

    It moves in steps of a hundredth of the retention: 100 minutes for a week. If it moved every minute, every cycle
    would find a row or two to delete.
    """
    kept = timedelta(days=days)
    step = max(kept / CUTOFF_STEPS, timedelta.resolution)
    return _EPOCH + (now - kept - _EPOCH) // step * step


def chart_cutoff(now: datetime, span: int) -> datetime:
    """Intervals of mayfly_history with this span that began earlier are in no chart."""
    return _EPOCH + (now - CHARTED[span] - _EPOCH) // DAY * DAY


class Search(NamedTuple):
    """Finds the keys of the next rows to delete."""

    table: str
    key: str
    old: str  # which rows, and in which order
    values: Mapping[str, Any]
    still: str = ""  # what must hold at the DELETE: the row may have changed since it was found
    dependents: str = ""  # a DELETE of rows that belong to them

    @property
    def statement(self) -> str:
        return f"SELECT {self.key} FROM {self.table} WHERE {self.old} LIMIT {SLICE}"


def prune(database: Database, keep: Settings, slices: int = SLICES_PER_CYCLE) -> int:
    """Returns how many rows were deleted. Stops after `slices` DELETEs; the next cycles continue."""
    groups = database.read(job_groups)
    pruned = 0
    for search in searches(groups, keep, database.clock.now()):
        deleted = SLICE
        while slices > 0 and deleted >= SLICE:
            deleted = _prune_slice(database, search)
            pruned += deleted
            slices -= deleted > 0
    return pruned


def _prune_slice(database: Database, search: Search) -> int:
    """Search without locks, then delete by primary key: no scan locks rows that other transactions need."""
    keys = database.read(lambda connection: connection.execute(search.statement, search.values).all())
    if not keys:
        return 0
    return database.run(lambda connection: delete(connection, search, [key for (key,) in keys]))


def delete(connection: Connection, search: Search, keys: Iterable[Any]) -> int:
    """A job that was retried since the search is kept."""
    values = numbered_parameters(sorted(set(keys)))
    listed = placeholders(values)
    if search.dependents:
        connection.execute(f"{search.dependents} IN ({listed})", values)
    statement = f"DELETE FROM {search.table} WHERE {search.key} IN ({listed}){search.still}"
    return connection.execute(statement, {**search.values, **values}).rowcount


def searches(groups: Iterable[JobGroup], keep: Settings, now: datetime) -> Iterator[Search]:
    """One per table whose rows expire, and one per group of jobs that may have old ones.

    `keep` has the days after which a row is old; None keeps dead jobs forever.
    """
    kept = {DONE: keep.keep_done_days, CANCELLED: keep.keep_cancelled_days, DEAD: keep.keep_dead_days}
    cutoffs = {status: cutoff(now, days) for status, days in kept.items() if days is not None}
    for group in groups:
        before = cutoffs.get(group.status)
        if before is not None and group.first_run_at < before:
            yield finished_jobs(group.lane, group.status, group.priority, before)
    before = cutoff(now, keep.keep_done_days)
    yield _aged("mayfly_batches", "batch_key", "completed_at", before)
    yield Search("mayfly_batches", "batch_key", NEVER_SEALED, {"before": before})
    before = cutoff(now, keep.keep_runners_days)
    yield _aged("mayfly_runners", "worker_id", "finished_at", before)
    # A window that ended so long ago counts nothing. A new one may have begun since the search.
    yield _aged("mayfly_limits", "limit_key", "opens_at", before)._replace(still=" AND opens_at < :before")
    before = cutoff(now, keep.keep_cycles_days)
    for outcome in ATTEMPT_OUTCOMES:
        old = f"outcome = '{outcome}' AND finished_at < :before ORDER BY finished_at"
        yield Search("mayfly_attempts", "id", old, {"before": before})
    yield _aged("mayfly_cycles", "id", "started_at", before)
    # A cycle's id is the millisecond in which it began, so the totals need no index of their own.
    yield _aged("mayfly_totals", "cycle_id", "cycle_id", milliseconds(before))
    yield _history(EIGHT_HOURS, before)
    for span in CHARTED:
        yield _history(span, chart_cutoff(now, span))
    yield _aged("mayfly_audit", "id", "done_at", cutoff(now, keep.keep_audit_days))
    # The same key may have been used again since the search, by this token or another.
    answered = _aged("mayfly_requests", "idempotency_key", "created_at", cutoff(now, REQUEST_DAYS))
    yield answered._replace(still=" AND created_at < :before")


def finished_jobs(lane: str, status: str, priority: int, before: datetime) -> Search:
    """Along the claim index: a job that finished before a time was due before it."""
    old = (
        f"lane = :lane AND status = '{status}' AND priority = {priority}"
        f" AND run_at < :before AND finished_at < :before ORDER BY run_at, id"
    )
    still = f" AND status = '{status}'"
    return Search("mayfly_jobs", "id", old, {"lane": lane, "before": before}, still, DELETE_STEPS)


def _aged(table: str, key: str, age: str, before: Any) -> Search:
    return Search(table, key, f"{age} < :before ORDER BY {age}", {"before": before})


def _history(span: int, before: datetime) -> Search:
    """Intervals of several spans may begin at the same millisecond."""
    old = "span = :span AND begins < :before ORDER BY begins"
    return Search(
        "mayfly_history", "begins", old, {"span": span, "before": milliseconds(before)}, " AND span = :span"
    )
