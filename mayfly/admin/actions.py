"""What operators do to jobs: cancel, retry, delay, discard, and prune old rows.

An action finds its jobs along an index and changes them in slices. Each slice is one transaction together with its
count in the audit, so an action that is stopped has done a countable part of its work and can be repeated.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from mayfly.admin.audit import Actor, AuditEntry
from mayfly.admin.filters import JobFilter, Range, StatusConditions, not_empty, position_of, ranges
from mayfly.admin.jobs import CappedCount
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import BadField
from mayfly.queue.batches import complete_all
from mayfly.queue.count import find_lanes
from mayfly.queue.failure import bounded, storable
from mayfly.queue.insert import LIVE, held_among_statement
from mayfly.queue.insert import PENDING as WHILE_PENDING
from mayfly.queue.prune import Keep, prune, searches
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, WAITING_LENGTH

ROWS_PER_SLICE = 1000
MAX_MATCHING_COUNTED = 10_000
MAX_ROWS_ESTIMATED = 20_000  # read for conditions that no index covers
DUE_SOON = timedelta(seconds=1)  # `retry` does not move a job that is due by then


class BulkResult(NamedTuple):
    changed: int = 0
    requested: int = 0  # running jobs whose handlers are asked to stop
    held: int = 0  # unchanged: another job holds their unique key

    def plus(self, other: "BulkResult") -> "BulkResult":
        return BulkResult(*(one + more for one, more in zip(self, other, strict=True)))


OnProgress = Callable[[int], object]  # called with the number of jobs of each slice


def no_progress(_jobs: int) -> None:
    pass


def cause(past: str, actor: Actor | None, reason: str | None) -> str:
    """As it is written to each job: "cancelled by ann: sent twice"."""
    action = f"{past} by {actor.name}" if actor else past
    return bounded(storable(f"{action}: {reason}" if reason else action))


# --- statements ---------------------------------------------------------------------------------------------


def update_jobs(changes: str, condition: str) -> str:
    """One shape for all: the old state in the WHERE clause, since it may have changed since the jobs were found."""
    return f"UPDATE mayfly_jobs SET {changes} WHERE {{ids of id}} AND {condition}"


ENDED = "status IN ('dead', 'cancelled')"
LOCK_LIVE = "SELECT id, status FROM mayfly_jobs WHERE {ids of id} AND status IN ('pending', 'processing') ORDER BY id"
LOCK_RETRYABLE = (
    "SELECT id, status, unique_key, unique_scope, claims FROM mayfly_jobs WHERE {ids of id}"
    f" AND ({ENDED} OR (status = 'pending' AND run_at > :soon)) ORDER BY id"
)

# run_at is never after finished_at: pruning finds old jobs by run_at.
CANCEL_PENDING = update_jobs(
    "status = 'cancelled', finished_at = :now, last_error = :reason,"
    " run_at = CASE WHEN run_at > :now THEN :now ELSE run_at END",
    "status = 'pending'",
)
REQUEST_CANCEL = update_jobs("cancel_reason = :reason", "status = 'processing' AND cancel_reason IS NULL")
DISCARD_DEAD = update_jobs("status = 'cancelled', finished_at = :now, cancel_reason = :reason", "status = 'dead'")
DELAY_PENDING = update_jobs("run_at = :until, waiting_for = :waiting_for", "status = 'pending' AND run_at < :until")
RUN_NOW = update_jobs("run_at = :now, waiting_for = NULL", "status = 'pending'")

# As when it was enqueued, except for claims (the fencing token), checkpoint and history.
RETRY_ENDED = update_jobs(
    "status = 'pending', run_at = :now, attempts = 0, crashes = 0, interruptions = 0, releases = 0, suspect = 0,"
    " stalled = 0, worker_id = NULL, locked_at = NULL, lease_until = NULL, started_at = NULL, finished_at = NULL,"
    " duration_ms = NULL, cancel_reason = NULL, waiting_for = NULL,"
    " expires_at = CASE WHEN expires_at <= :now THEN NULL ELSE expires_at END",
    ENDED,
)


def _discard(connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    return BulkResult(changed=connection.execute(DISCARD_DEAD, action.values, ids).rowcount)


def _delay(connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    return BulkResult(changed=connection.execute(DELAY_PENDING, action.values, ids).rowcount)


def _cancel(connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    """By their status now: some may have been claimed, or have ended, since they were found."""
    rows = connection.execute(f"{LOCK_LIVE}{connection.dialect.row_lock}", ids=ids).all()
    pending = [job_id for job_id, status in rows if status == PENDING]
    running = [job_id for job_id, status in rows if status == PROCESSING]
    if pending:
        connection.execute(CANCEL_PENDING, action.values, pending)
    if running:
        connection.execute(REQUEST_CANCEL, action.values, running)
    return BulkResult(changed=len(pending), requested=len(running))


def _retry(connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    """By their status now: they may be retried from several places at once."""
    found = connection.execute(f"{LOCK_RETRYABLE}{connection.dialect.row_lock}", action.values, ids).all()
    rows = [row for row in found if action.job_filter.status in (None, row[1])]
    pending = [row[0] for row in rows if row[1] == PENDING]
    ended = [row for row in rows if row[1] != PENDING]
    free = _with_free_keys(connection, ended)
    if free:
        connection.execute(RETRY_ENDED, action.values, free)
    if pending:
        connection.execute(RUN_NOW, action.values, pending)
    return BulkResult(changed=len(free) + len(pending), held=len(ended) - len(free))


def _with_free_keys(connection: Connection, ended: Sequence[Any]) -> list[int]:
    """Jobs whose unique key no other job holds; of several with one key the first.

    If the key is taken between this query and the update, the database refuses and the slice is repeated.
    """
    keys = {f"key_{number}": row[2] for number, row in enumerate(ended) if _would_hold(*row[2:])}
    statement = held_among_statement(connection.dialect, list(keys))
    taken = set(connection.execute(statement, keys).scalars()) if keys else set()
    free = []
    for job_id, _status, key, scope, claims in ended:
        if _would_hold(key, scope, claims):
            if key in taken:
                continue
            taken.add(key)
        free.append(job_id)
    return free


def _would_hold(key: str | None, scope: str, claims: int) -> bool:
    """Whether the job holds its key once it is pending again; a key held for a time does not depend on that."""
    return key is not None and (scope == LIVE or (scope == WHILE_PENDING and claims == 0))


# --- many jobs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verb:
    name: str
    past_tense: str  # of the jobs
    applies_to: StatusConditions  # may use the parameters :soon and :until
    change: "Callable[[Connection, Sequence[int], BulkAction], BulkResult]"
    default_status: str | None = None  # for a filter without a status


CANCEL = Verb("cancel", "cancelled", {PENDING: "", PROCESSING: "cancel_reason IS NULL"}, _cancel)
RETRY = Verb("retry", "due again", {DEAD: "", CANCELLED: "", PENDING: "run_at > :soon"}, _retry, default_status=DEAD)
DISCARD = Verb("discard", "discarded", {DEAD: ""}, _discard)
DELAY = Verb("delay", "delayed", {PENDING: "run_at < :until"}, _delay)  # a delayed job is not found again
VERBS = {each.name: each for each in (RETRY, CANCEL, DISCARD, DELAY)}


@dataclass(frozen=True)
class BulkAction:
    """A verb, the jobs it is for, and what it writes to them. `until` is the new time of a delay."""

    verb: Verb
    job_filter: JobFilter
    now: datetime
    until: datetime | None = None
    cause: str = ""

    @classmethod
    def of(
        cls, verb: Verb, given: JobFilter, now: datetime, until: datetime | None = None, cause: str = ""
    ) -> "BulkAction":
        """With the verb's default status, unless the filter has ids or a status."""
        is_specific = given.allowed_for(tuple(verb.applies_to), verb.name).ids is not None or given.status is not None
        return cls(verb, given if is_specific else given._replace(status=verb.default_status), now, until, cause)

    @property
    def values(self) -> dict[str, Any]:
        """Parameters of all statements."""
        times = {"now": self.now, "soon": self.now + DUE_SOON, "until": self.until}
        return {**times, "reason": self.cause, "waiting_for": self.cause[:WAITING_LENGTH]}

    def ranges(self, connection: Connection) -> list[Range]:
        return ranges(connection, self.job_filter, self.verb.applies_to, self.values)


def act(
    database: Database,
    verb: Verb,
    job_filter: JobFilter,
    actor: Actor | None = None,
    reason: str | None = None,
    until: datetime | None = None,
    on_progress: OnProgress = no_progress,
) -> BulkResult:
    """Slice by slice, each in a transaction of its own. Without an actor there is no audit entry.

    Cancel: pending jobs end at once, running ones when their handlers check. Retry: dead and cancelled jobs are
    pending again, waiting ones due; a filter without a status means dead jobs.
    """
    now = database.clock.now()
    if until is not None and until <= now:
        raise BadField("until", until.isoformat(timespec="seconds"), "a time in the future")
    action = BulkAction.of(verb, job_filter, now, until, cause(verb.past_tense, actor, reason))
    until_text = f" until={until.isoformat(timespec='seconds')}" if until else ""
    entry = None if actor is None else AuditEntry(actor, verb.name, f"{job_filter}{until_text}", now, reason)
    total = BulkResult()
    for each in database.read(action.ranges):
        after = None
        while found := database.read(partial(each.find, size=ROWS_PER_SLICE, after=after)):
            after = position_of(found[-1])
            ids = [row[0] for row in found]
            total = total.plus(database.run(partial(_change_slice, action, entry, ids)))
            on_progress(len(ids))
    if verb is CANCEL and total.changed:
        complete_all(database)  # the last job of a batch may have been among them
    return total


def _change_slice(
    action: BulkAction, entry: AuditEntry | None, ids: Sequence[int], connection: Connection
) -> BulkResult:
    done = action.verb.change(connection, ids, action)
    if entry is not None:
        entry.add(connection, done.changed + done.requested)
    return done


def count_matching(database: Database, verb: Verb, job_filter: JobFilter, until: datetime | None = None) -> int:
    """How many jobs the verb would change; MAX_MATCHING_COUNTED + 1 stands for any higher number."""
    total = 0
    for each in database.read(BulkAction.of(verb, job_filter, database.clock.now(), until).ranges):
        total += database.read(partial(each.number, most=MAX_MATCHING_COUNTED + 1 - total))
        if total > MAX_MATCHING_COUNTED:
            break
    return total


def estimate_matching(
    database: Database, verb: Verb, job_filter: JobFilter, until: datetime | None = None
) -> CappedCount:
    """Like count_matching, but it never reads a whole lane for a rare type: then the count is a lower bound."""
    action = BulkAction.of(verb, job_filter, database.clock.now(), until)
    return database.read(lambda connection: _estimate(connection, action.ranges(connection)))


def _estimate(connection: Connection, found: list[Range]) -> CappedCount:
    by_id = [each for each in found if each.ids is not None]
    by_index = not_empty(connection, [each for each in found if each.ids is None])
    share = MAX_ROWS_ESTIMATED // max(1, len(by_index))
    total, is_more = 0, False
    for each in [*by_id, *by_index]:
        floor = each.floor(connection, share) if each.unindexed and each.ids is None else None
        total += each.number(connection, MAX_MATCHING_COUNTED + 1 - total, floor)
        is_more = is_more or floor is not None
        if total > MAX_MATCHING_COUNTED:
            break
    return CappedCount(min(total, MAX_MATCHING_COUNTED), is_more or total > MAX_MATCHING_COUNTED)


# --- old rows -----------------------------------------------------------------------------------------------


def prune_all(database: Database, keep: Keep, actor: Actor, on_progress: OnProgress = no_progress) -> int:
    """Delete all old rows; cycles delete a bounded number each. Returns the number of rows."""
    entry = AuditEntry(actor, "prune", "old rows", database.clock.now())
    total = 0
    while deleted := prune(database, keep):
        database.run(partial(entry.add, jobs=deleted))
        total += deleted
        on_progress(deleted)
    return total


def count_old(connection: Connection, keep: Keep, now: datetime) -> dict[str, int]:
    """Rows to prune by table; MAX_MATCHING_COUNTED + 1 stands for any higher number."""
    old: Counter[str] = Counter()
    for search in searches(find_lanes(connection), keep, now):
        left = MAX_MATCHING_COUNTED + 1 - old[search.table]
        if left > 0:
            rows = f"SELECT {search.key} FROM {search.table} WHERE {search.old} LIMIT {left}"
            counting = f"SELECT COUNT(*) FROM ({rows}) AS old_rows"
            old[search.table] += int(connection.execute(counting, search.values).scalar())
    return {table: number for table, number in old.items() if number}
