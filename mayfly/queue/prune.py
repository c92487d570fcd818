"""Since when rows are kept. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.queue.count import find_lanes
from mayfly.schema.tables import CANCELLED, DEAD, DONE, PRIORITIES
from mayfly.settings import Settings

STEPS = 100

# The spans of mayfly_history in seconds, each a multiple of the one before it. What no chart shows any more goes,
# the longest as the cycles do; by whole days: an idle minute that has something to prune is no idle one.
MINUTE, QUARTER, TWO_HOURS, EIGHT_HOURS = 60, 900, 7200, 28_800
SPANS = (MINUTE, QUARTER, TWO_HOURS, EIGHT_HOURS)
CHARTED = {
    MINUTE: timedelta(hours=2),
    QUARTER: timedelta(days=1, hours=1),
    TWO_HOURS: timedelta(days=7, hours=4),
}
DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cutoff(now: datetime, days: float) -> datetime:
    """What is older may go.

    It moves in steps of a hundredth of the time that is kept: an hour and a half for a week. If it moved with
    every minute, every cycle would find just the row that the same minute of that day had left.
    """
    kept = timedelta(days=days)
    step = max(kept / STEPS, timedelta.resolution)
    return _EPOCH + (now - kept - _EPOCH) // step * step


def uncharted(now: datetime, span: int) -> datetime:
    """Shorter spans of mayfly_history that began before are of no use to anybody."""
    return _EPOCH + (now - CHARTED[span] - _EPOCH) // DAY * DAY


SLICE = 500
SLICES_PER_CYCLE = 20
REQUEST_DAYS = 1  # for so long an HTTP client may ask again with the same Idempotency-Key
NEVER_SEALED = "completed_at IS NULL AND sealed_at IS NULL AND created_at < :before"  # who filled it has died
STEPS_OF = "DELETE FROM mayfly_chains WHERE job_id"  # that never had their turn


class Keep(NamedTuple):
    """Days to keep each kind of row; None keeps it for ever."""

    done: float | None = 7
    cancelled: float | None = 7
    dead: float | None = None
    cycles: float | None = 90
    runners: float | None = 7
    audit: float | None = 365


def keep_from(settings: Settings) -> Keep:
    return Keep(
        done=settings.keep_done_days,
        cancelled=settings.keep_cancelled_days,
        dead=settings.keep_dead_days,
        cycles=settings.keep_cycles_days,
        runners=settings.keep_runners_days,
        audit=settings.keep_audit_days,
    )


class Search(NamedTuple):
    """Finds the keys of the next rows to go."""

    table: str
    key: str
    old: str  # which rows, and in which order
    values: Mapping[str, Any]
    still: str = ""  # what must hold when they go: somebody may have changed the row
    along: str = ""  # what goes with them, if there is any of it

    @property
    def statement(self) -> str:
        return f"SELECT {self.key} FROM {self.table} WHERE {self.old} LIMIT {SLICE}"


def prune(database: Database, keep: Keep, slices: int = SLICES_PER_CYCLE) -> int:
    """How many rows went. Stops when `slices` deletions are used up: the rest goes in the cycles to come."""
    lanes = database.read(lambda connection: find_lanes(connection))
    pruned = 0
    for search in searches(lanes, keep, database.clock.now()):
        gone = SLICE
        while slices > 0 and gone >= SLICE:
            gone = _prune_slice(database, search)
            pruned += gone
            slices -= gone > 0
    return pruned


def _prune_slice(database: Database, search: Search) -> int:
    """Look without a lock, then delete by primary key: no scan holds rows that somebody else may want."""
    keys = database.read(lambda connection: connection.execute(search.statement, search.values).all())
    if not keys:
        return 0
    return database.run(lambda connection: delete(connection, search, [key for (key,) in keys]))


def delete(connection: Connection, search: Search, keys: Iterable[Any]) -> int:
    """A job that was given another try since the look stays."""
    names = {f"key_{number}": key for number, key in enumerate(sorted(set(keys)))}
    listed = ", ".join(f":{name}" for name in names)
    if search.along:
        connection.execute(f"{search.along} IN ({listed})", names)
    statement = f"DELETE FROM {search.table} WHERE {search.key} IN ({listed}){search.still}"
    return connection.execute(statement, {**search.values, **names}).rowcount


def searches(lanes: Sequence[str], keep: Keep, now: datetime) -> Iterator[Search]:
    for status, days in ((DONE, keep.done), (CANCELLED, keep.cancelled), (DEAD, keep.dead)):
        if days is not None:
            for lane in lanes:
                for priority in PRIORITIES:
                    yield finished_jobs(lane, status, priority, cutoff(now, days))
    if keep.done is not None:
        before = cutoff(now, keep.done)
        yield _aged("mayfly_batches", "batch_key", "completed_at", before)
        yield Search("mayfly_batches", "batch_key", NEVER_SEALED, {"before": before})
    if keep.runners is not None:
        before = cutoff(now, keep.runners)
        yield _aged("mayfly_runners", "worker_id", "finished_at", before)
        # Of a key whose window ended so long ago nothing is worth knowing. Somebody may have opened another since.
        yield _aged("mayfly_limits", "limit_key", "opens_at", before)._replace(still=" AND opens_at < :before")
    if keep.cycles is not None:
        before = cutoff(now, keep.cycles)
        yield _aged("mayfly_attempts", "id", "finished_at", before)
        yield _aged("mayfly_cycles", "id", "started_at", before)
        # A cycle's number is the millisecond in which it began, so the totals need no index of their own.
        yield _aged("mayfly_totals", "cycle_id", "cycle_id", milliseconds(before))
        yield _history(EIGHT_HOURS, before)
    for span in CHARTED:
        yield _history(span, uncharted(now, span))
    if keep.audit is not None:
        yield _aged("mayfly_audit", "id", "done_at", cutoff(now, keep.audit))
    # The same key may have been given again since, by this token or another.
    answered = _aged("mayfly_requests", "idempotency_key", "created_at", cutoff(now, REQUEST_DAYS))
    yield answered._replace(still=" AND created_at < :before")


def finished_jobs(lane: str, status: str, priority: int, before: datetime) -> Search:
    """Along the claim index: a job that finished before a time was due before it."""
    old = (
        f"lane = :lane AND status = '{status}' AND priority = {priority}"
        f" AND run_at < :before AND finished_at < :before ORDER BY run_at, id"
    )
    still = f" AND status = '{status}'"
    return Search("mayfly_jobs", "id", old, {"lane": lane, "before": before}, still, STEPS_OF)


def _aged(table: str, key: str, age: str, before: Any) -> Search:
    return Search(table, key, f"{age} < :before ORDER BY {age}", {"before": before})


def _history(span: int, before: datetime) -> Search:
    """The same millisecond begins shorter and longer spans."""
    old = "span = :span AND begins < :before ORDER BY begins"
    return Search(
        "mayfly_history", "begins", old, {"span": span, "before": milliseconds(before)}, " AND span = :span"
    )
