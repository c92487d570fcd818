"""Actions of operators: cancel, retry, delay or discard jobs, seal or abandon a batch, prune old rows.

An action finds its jobs with an index and changes them in slices. Each slice is one transaction together with its
count in the audit, so an interrupted action is counted correctly and can be repeated.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mayfly.admin.auth import Actor, AuditEntry, audited
from mayfly.admin.filters import (
    FoundSlice,
    JobFilter,
    Position,
    Range,
    StatusConditions,
    find_slice,
    not_empty,
    ranges,
    refuse_past,
)
from mayfly.admin.jobs import CappedCount
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.format import plural
from mayfly.queue.batches import abandon, complete, complete_all, seal
from mayfly.queue.count import job_groups
from mayfly.queue.insert import LIVE, held_among_statement
from mayfly.queue.insert import PENDING as WHILE_PENDING
from mayfly.queue.outcome import bounded, storable
from mayfly.queue.prune import prune, searches
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, WAITING_LENGTH
from mayfly.settings import Settings

if TYPE_CHECKING:
    from mayfly.queue.sources import Sources

ROWS_PER_SLICE = 1000
MAX_MATCHING_COUNTED = 10_000
MAX_ROWS_ESTIMATED = 20_000  # read for conditions that no index covers
MAX_SLICES_ESTIMATED = 10  # the same for a search in contents: of at most MAX_ROWS_SEARCHED rows each
DUE_SOON = timedelta(seconds=1)  # `retry` does not move a job that is due by then

OnProgress = Callable[[int], object]  # called with the number of jobs of each slice; a search may find none
Visible = Callable[[Connection, Sequence[int]], Sequence[int]]  # of the jobs found, those that the user may find


# --- changes of jobs ----------------------------------------------------------------------------------------


class BulkResult(NamedTuple):
    changed: int = 0
    requested: int = 0  # running jobs whose handlers are asked to stop
    held: int = 0  # unchanged: another job holds their unique key
    skipped: int = 0  # cancelled jobs that match too, but a filter without a status selects dead jobs

    def plus(self, other: "BulkResult") -> "BulkResult":
        return BulkResult(*(one + more for one, more in zip(self, other, strict=True)))

    def text(self, past_tense: str) -> str:
        """3 jobs cancelled. 1 running job asked to stop."""
        skipped = skipped_text(self.skipped)
        if self == BulkResult(skipped=self.skipped):
            return f"No matching jobs; nothing was changed.{skipped}"
        running = f" {plural(self.requested, 'running job')} asked to stop." if self.requested else ""
        held = f" {plural(self.held, 'job')} unchanged: another job holds the unique key." if self.held else ""
        return f"{plural(self.changed, 'job')} {past_tense}.{running}{held}{skipped}"


def skipped_text(jobs: int) -> str:
    """Added to a result, also of a dry run."""
    skipped = f" {plural(jobs, 'cancelled job')} skipped: filter by the status cancelled to retry cancelled jobs."
    return skipped if jobs else ""


def cause(past: str, actor: Actor | None, reason: str | None) -> str:
    """Stored in each job: "cancelled by ann: sent twice"."""
    action = f"{past} by {actor.name}" if actor else past
    return bounded(storable(f"{action}: {reason}" if reason else action))


def update_jobs(changes: str, condition: str) -> str:
    """With the old state in the WHERE clause: it may have changed since the jobs were found."""
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
    " duration_ms = NULL, cancel_reason = NULL, waiting_for = NULL, unknown_since = NULL,"
    " expires_at = CASE WHEN expires_at <= :now THEN NULL ELSE expires_at END",
    ENDED,
)


def _update(statement: str, connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    return BulkResult(changed=connection.execute(statement, action.values, ids).rowcount)


def _cancel(connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    """By current status: some may have been claimed, or have ended, since they were found."""
    rows = connection.execute(f"{LOCK_LIVE}{connection.dialect.row_lock}", ids=ids).all()
    pending = [job_id for job_id, status in rows if status == PENDING]
    running = [job_id for job_id, status in rows if status == PROCESSING]
    if pending:
        connection.execute(CANCEL_PENDING, action.values, pending)
        _cancel_rows(connection, pending, action)
    if running:
        connection.execute(REQUEST_CANCEL, action.values, running)
    return BulkResult(changed=len(pending), requested=len(running))


def _retry(connection: Connection, ids: Sequence[int], action: "BulkAction") -> BulkResult:
    """By current status: other processes may retry them concurrently."""
    found = connection.execute(f"{LOCK_RETRYABLE}{connection.dialect.row_lock}", action.values, ids).all()
    rows = [row for row in found if action.job_filter.status in (None, row[1])]
    pending = [row[0] for row in rows if row[1] == PENDING]
    ended = [row for row in rows if row[1] != PENDING]
    free = _with_free_keys(connection, ended)
    if free:
        connection.execute(RETRY_ENDED, action.values, free)
        _reopen_rows(connection, free, action)
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
    """Whether the job holds its key when it is pending again; a key held for a fixed time is independent of it."""
    return key is not None and (scope == LIVE or (scope == WHILE_PENDING and claims == 0))


# --- rows of sources --------------------------------------------------------------------------------------


def open_sources(settings: Settings, database: Database) -> "Sources | None":
    """None if the settings have no sources."""
    if not settings.sources:
        return None
    from mayfly.queue.sources import Sources  # most installations have no sources

    return Sources(settings.sources.values(), database.dialect)


def _cancel_rows(connection: Connection, ids: Sequence[int], action: "BulkAction") -> None:
    """Rows of cancelled jobs get their final status; a running job writes it when it stops."""
    if action.sources is not None:
        from mayfly.queue.source_outcome import cancel_rows  # most installations have no sources

        cancel_rows(connection, action.sources, ids, action.now)


def _reopen_rows(connection: Connection, ids: Sequence[int], action: "BulkAction") -> None:
    """Without this, the rows would count as changed by the application, and the jobs be cancelled."""
    if action.sources is not None:
        from mayfly.queue.source_outcome import reopen_rows  # most installations have no sources

        reopen_rows(connection, action.sources, ids)


# --- many jobs ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verb:
    name: str
    past_tense: str  # 3 jobs will be …
    applies_to: StatusConditions  # may use the parameters :soon and :until
    change: "Callable[[Connection, Sequence[int], BulkAction], BulkResult]"
    default_status: str | None = None  # for a filter without a status


CANCEL = Verb("cancel", "cancelled", {PENDING: "", PROCESSING: "cancel_reason IS NULL"}, _cancel)
RETRY = Verb("retry", "due again", {DEAD: "", CANCELLED: "", PENDING: "run_at > :soon"}, _retry, default_status=DEAD)
DISCARD = Verb("discard", "discarded", {DEAD: ""}, partial(_update, DISCARD_DEAD))
DELAY = Verb("delay", "delayed", {PENDING: "run_at < :until"}, partial(_update, DELAY_PENDING))  # none is found twice
VERBS = {each.name: each for each in (RETRY, CANCEL, DISCARD, DELAY)}


@dataclass(frozen=True)
class BulkAction:
    """A verb, its jobs, and the values it writes. `until` is the new time of a delay."""

    verb: Verb
    job_filter: JobFilter
    now: datetime
    until: datetime | None = None
    cause: str = ""
    visible: Visible | None = None
    sources: "Sources | None" = None

    @classmethod
    def of(cls, verb: Verb, given: JobFilter, now: datetime, **fields: Any) -> "BulkAction":
        """With the verb's default status, unless the filter has ids or a status."""
        is_specific = given.allowed_for(tuple(verb.applies_to), verb.name).ids is not None or given.status is not None
        return cls(verb, given if is_specific else given._replace(status=verb.default_status), now, **fields)

    @property
    def values(self) -> dict[str, Any]:
        times = {"now": self.now, "soon": self.now + DUE_SOON, "until": self.until}
        return {**times, "reason": self.cause, "waiting_for": self.cause[:WAITING_LENGTH]}

    def ranges(self, connection: Connection) -> list[Range]:
        return ranges(connection, self.job_filter, self.verb.applies_to, self.values)

    def find_slice(self, connection: Connection, found: Range, after: Position | None) -> FoundSlice:
        ids, following = find_slice(connection, found, self.job_filter, ROWS_PER_SLICE, after)
        return FoundSlice(self.visible(connection, ids) if self.visible and ids else ids, following)

    def find_all(self, database: Database) -> Iterator[Sequence[int]]:
        """Slice by slice; an empty one where a search has found nothing yet."""
        for each in database.read(self.ranges):
            found = database.read(partial(self.find_slice, found=each, after=None))
            while found.next is not None:
                yield found.ids
                found = database.read(partial(self.find_slice, found=each, after=found.next))


def act(
    database: Database,
    verb: Verb,
    job_filter: JobFilter,
    actor: Actor | None = None,
    reason: str | None = None,
    until: datetime | None = None,
    on_progress: OnProgress = lambda _jobs: None,
    visible: Visible | None = None,
    sources: "Sources | None" = None,
) -> BulkResult:
    """Slice by slice, each in one transaction with its rows of sources. Without an actor no audit entry is written.

    Cancel: pending jobs end at once, running jobs when their handlers check. Retry: dead and cancelled jobs are
    pending again, waiting jobs are due; a filter without a status selects dead jobs.
    """
    now = database.clock.now()
    refuse_past(until, now)
    reason_text = cause(verb.past_tense, actor, reason)
    action = BulkAction.of(verb, job_filter, now, until=until, cause=reason_text, visible=visible, sources=sources)
    until_text = f" until={until.isoformat(timespec='seconds')}" if until else ""
    entry = None if actor is None else AuditEntry(actor, verb.name, f"{job_filter}{until_text}", now, reason)
    total = BulkResult()
    for ids in action.find_all(database):
        if ids:
            total = total.plus(database.run(partial(_change_slice, action, entry, ids)))
        on_progress(len(ids))
    if verb is CANCEL and total.changed:
        complete_all(database)  # the last job of a batch may have been among them
    return total._replace(skipped=count_skipped(database, verb, job_filter, visible))


def _change_slice(
    action: BulkAction, entry: AuditEntry | None, ids: Sequence[int], connection: Connection
) -> BulkResult:
    done = action.verb.change(connection, ids, action)
    if entry is not None:
        entry.add(connection, done.changed + done.requested)
    return done


def seal_batch(database: Database, key: str, actor: Actor) -> bool:
    """Seal it, and complete it if it has no live job. False if it was already sealed or completed."""
    now = database.clock.now()
    is_sealed = audited(database, AuditEntry(actor, "seal", f"batch {key}", now), partial(seal, key=key, now=now))
    if is_sealed:
        complete(database, [key], {})
    return is_sealed


def abandon_batch(
    database: Database,
    key: str,
    reason: str,
    actor: Actor | None = None,
    on_progress: OnProgress = lambda _jobs: None,
    sources: "Sources | None" = None,
) -> BulkResult:
    """Mark it as abandoned, then cancel its pending jobs. Repeatable if the process is killed between the two."""
    now = database.clock.now()
    mark = partial(abandon, key=key, now=now)
    if actor is None:
        database.run(mark)
    else:
        audited(database, AuditEntry(actor, "abandon", f"batch {key}", now, reason), mark)
    pending = JobFilter(group_key=key, status=PENDING)
    because = f"the batch {key} was abandoned: {reason}"
    return act(database, CANCEL, pending, actor, because, on_progress=on_progress, sources=sources)


def count_matching(
    database: Database,
    verb: Verb,
    job_filter: JobFilter,
    until: datetime | None = None,
    max_rows: int | None = None,
    visible: Visible | None = None,
) -> CappedCount:
    """Number of jobs that the verb would change.

    If no index covers a condition, such as a rare type in a lane with many jobs, at most `max_rows` are read and the
    count is a lower bound; of a search in contents, MAX_SLICES_ESTIMATED slices. Without `max_rows` the count is
    exact up to MAX_MATCHING_COUNTED.
    """
    action = BulkAction.of(verb, job_filter, database.clock.now(), until=until, visible=visible)
    if action.job_filter.searches_content:
        return _count_slices(action.find_all(database), None if max_rows is None else MAX_SLICES_ESTIMATED)
    return database.read(lambda connection: _count(connection, action.ranges(connection), max_rows))


def _count_slices(slices: Iterator[Sequence[int]], max_slices: int | None) -> CappedCount:
    """Of a search in contents: the payloads of a slice are compared in Python."""
    total = 0
    for number, ids in enumerate(slices):
        if number == max_slices:
            return CappedCount(total, is_more=True)
        total += len(ids)
        if total > MAX_MATCHING_COUNTED:
            break
    return CappedCount.of(total, MAX_MATCHING_COUNTED)


def _count(connection: Connection, found: list[Range], max_rows: int | None) -> CappedCount:
    if max_rows is not None:
        found = [each for each in found if each.ids is not None or not_empty(connection, [each])]
    total, is_more = 0, False
    for each in found:
        is_searched = each.unindexed and each.ids is None
        floor = each.floor(connection, max_rows // len(found)) if max_rows is not None and is_searched else None
        total += each.number(connection, MAX_MATCHING_COUNTED + 1 - total, floor)
        is_more = is_more or floor is not None
        if total > MAX_MATCHING_COUNTED:
            break
    return CappedCount(min(total, MAX_MATCHING_COUNTED), is_more or total > MAX_MATCHING_COUNTED)


def count_skipped(database: Database, verb: Verb, job_filter: JobFilter, visible: Visible | None = None) -> int:
    """Cancelled jobs that a retry of dead jobs does not change, although they match."""
    if verb.default_status != DEAD or job_filter.ids is not None or job_filter.status is not None:
        return 0
    cancelled = job_filter._replace(status=CANCELLED)
    return count_matching(database, verb, cancelled, max_rows=MAX_ROWS_ESTIMATED, visible=visible).number


# --- old rows -----------------------------------------------------------------------------------------------


def prune_all(database: Database, keep: Settings, actor: Actor) -> int:
    """Delete all old rows (a cycle deletes a limited number). Returns the number of rows."""
    entry = AuditEntry(actor, "prune", "old rows", database.clock.now())
    total = 0
    while deleted := prune(database, keep):
        database.run(partial(entry.add, jobs=deleted))
        total += deleted
    return total


def count_old(connection: Connection, keep: Settings, now: datetime) -> dict[str, CappedCount]:
    old: Counter[str] = Counter()
    for search in searches(job_groups(connection), keep, now):
        left = MAX_MATCHING_COUNTED + 1 - old[search.table]
        if left > 0:
            rows = f"SELECT {search.key} FROM {search.table} WHERE {search.old} LIMIT {left}"
            counting = f"SELECT COUNT(*) FROM ({rows}) AS old_rows"
            old[search.table] += int(connection.execute(counting, search.values).scalar())
    return {table: CappedCount.of(number, MAX_MATCHING_COUNTED) for table, number in old.items() if number}
