"""Cancel jobs: those that wait at once, those that run by a flag that their handlers can see."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

from mayfly.admin.audit import Actor, AuditEntry
from mayfly.admin.bulk import (
    MAX_MATCHING_COUNTED,
    PAUSE_BETWEEN_SLICES,
    BulkAction,
    BulkResult,
    OnProgress,
    Verb,
    no_progress,
)
from mayfly.admin.filters import JobFilter, StatusConditions
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import BadField
from mayfly.queue.batches import complete_all
from mayfly.queue.count import find_lanes
from mayfly.queue.failure import bounded, storable
from mayfly.queue.options import LIVE
from mayfly.queue.options import PENDING as WHILE_PENDING
from mayfly.queue.prune import Keep, prune, searches
from mayfly.queue.unique import held_among_statement
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, WAITING_LENGTH, JobTable


class Cancelled(NamedTuple):
    """How many jobs have ended by it, and how many run and were told to end."""

    ended: int = 0
    told: int = 0


def cancellable(jobs: JobTable) -> StatusConditions:
    return {PENDING: "", PROCESSING: f"{jobs.c.cancel_reason} IS NULL"}


CANCEL = Verb("cancel", cancellable)


def cancel(
    database: Database,
    jobs: JobTable,
    which: JobFilter,
    actor: Actor | None = None,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> Cancelled:
    """Without an actor it is Mayfly's own doing, and nobody's deed."""
    now, text = database.clock.now(), cancelled_by("cancelled", actor, reason)
    deed = None if actor is None else AuditEntry(actor, CANCEL.name, str(which), now, reason)
    errand = BulkAction(database, jobs, CANCEL, which, now)
    done = errand.carry_out(lambda connection, ids: _cancel(connection, jobs, ids, text, now), deed, tell)
    if done.changed:
        complete_all(database, jobs)  # the last job of a batch may have been among them
    return Cancelled(done.changed, done.told)


def cancelled_by(what: str, actor: Actor | None, reason: str | None) -> str:
    """As it is kept with each job."""
    who = f"{what} by {actor.name}" if actor else what
    return bounded(storable(f"{who}: {reason}" if reason else who))


def _cancel(connection: Connection, jobs: JobTable, ids: Sequence[int], reason: str, now: datetime) -> BulkResult:
    """What each of them is by now decides: some may have been claimed, or have ended, since the look."""
    locking = f"{live_statement(jobs)}{connection.dialect.row_lock}"
    found = connection.execute(locking, ids=ids).all()
    waiting = [job_id for job_id, status in found if status == jobs.pending]
    running = [job_id for job_id, status in found if status == jobs.processing]
    if waiting:
        connection.execute(cancel_statement(jobs), {"reason": reason, "now": now}, waiting)
    if running:
        connection.execute(request_cancel_statement(jobs), {"reason": reason}, running)
    return BulkResult(changed=len(waiting), told=len(running))


@cache
def live_statement(jobs: JobTable) -> str:
    c = jobs.c
    live = f"{c.status} IN ('{jobs.pending}', '{jobs.processing}')"
    return f"SELECT {c.id}, {c.status} FROM {jobs.table} WHERE {{ids of {c.id}}} AND {live} ORDER BY {c.id}"


@cache
def cancel_statement(jobs: JobTable) -> str:
    """What was not due yet is now: pruning believes that whatever ended before a time was due before it."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.status} = '{jobs.cancelled}', {c.finished_at} = :now, {c.last_error} = :reason,"
        f" {c.run_at} = CASE WHEN {c.run_at} > :now THEN :now ELSE {c.run_at} END"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.pending}'"
    )


@cache
def request_cancel_statement(jobs: JobTable) -> str:
    """Whoever came first has given the reason."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.cancel_reason} = :reason"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.processing}' AND {c.cancel_reason} IS NULL"
    )


def delayable(jobs: JobTable) -> StatusConditions:
    """What was moved is not found again."""
    return {PENDING: f"{jobs.c.run_at} < :until"}


DELAY = Verb("delay", delayable)


def delay(
    database: Database,
    jobs: JobTable,
    which: JobFilter,
    until: datetime,
    actor: Actor,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> BulkResult:
    now = database.clock.now()
    if until <= now:
        raise BadField("until", until.isoformat(timespec="seconds"), "a time that is still to come")
    errand = BulkAction(database, jobs, DELAY, which, now, until)
    values = {"until": until, "waiting_for": cancelled_by("delayed", actor, reason)[:WAITING_LENGTH]}
    deed = AuditEntry(actor, DELAY.name, f"{which} until={until.isoformat(timespec='seconds')}", now, reason)

    def change(connection: Connection, ids: Sequence[int]) -> BulkResult:
        return BulkResult(changed=connection.execute(delay_statement(jobs), values, ids).rowcount)

    return errand.carry_out(change, deed, tell)


@cache
def delay_statement(jobs: JobTable) -> str:
    """The reason goes with the time: see docs/decisions.md."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.run_at} = :until, {c.waiting_for} = :waiting_for"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.pending}' AND {c.run_at} < :until"
    )


def discardable(_jobs: JobTable) -> StatusConditions:
    return {DEAD: ""}


DISCARD = Verb("discard", discardable)


def discard(
    database: Database,
    jobs: JobTable,
    which: JobFilter,
    actor: Actor,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> BulkResult:
    now, text = database.clock.now(), cancelled_by("discarded", actor, reason)
    errand = BulkAction(database, jobs, DISCARD, which, now)
    deed = AuditEntry(actor, DISCARD.name, str(which), now, reason)
    return errand.carry_out(lambda connection, ids: _discard(connection, jobs, ids, text, now), deed, tell)


def _discard(connection: Connection, jobs: JobTable, ids: Sequence[int], reason: str, now: datetime) -> BulkResult:
    return BulkResult(
        changed=connection.execute(discard_statement(jobs), {"reason": reason, "now": now}, ids).rowcount
    )


@cache
def discard_statement(jobs: JobTable) -> str:
    """It is kept as long as one that is cancelled today."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.status} = '{jobs.cancelled}', {c.finished_at} = :now,"
        f" {c.cancel_reason} = :reason WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.dead}'"
    )


def retryable(jobs: JobTable) -> StatusConditions:
    return {DEAD: "", CANCELLED: "", PENDING: f"{jobs.c.run_at} > :soon"}


RETRY = Verb("retry", retryable, asks_for=DEAD)


def retry(
    database: Database,
    jobs: JobTable,
    which: JobFilter,
    actor: Actor,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> BulkResult:
    """A filter that names no status means dead jobs."""
    now = database.clock.now()
    errand = BulkAction(database, jobs, RETRY, which, now)
    deed, status = AuditEntry(actor, RETRY.name, str(which), now, reason), errand.meant.status

    def change(connection: Connection, ids: Sequence[int]) -> BulkResult:
        return _retry(connection, jobs, ids, now, retryable(jobs) if status is None else (status,))

    return errand.carry_out(change, deed, tell)


def _retry(
    connection: Connection, jobs: JobTable, ids: Sequence[int], now: datetime, statuses: Collection[str]
) -> BulkResult:
    """What each of them is by now decides: somebody else may retry them at the same time."""
    values = {"soon": now + PAUSE_BETWEEN_SLICES}
    rows = connection.execute(f"{retryable_statement(jobs)}{connection.dialect.row_lock}", values, ids).all()
    found = [row for row in rows if jobs.word_of(row[1]) in statuses]
    waiting = [row[0] for row in found if row[1] == jobs.pending]
    ended = [row for row in found if row[1] != jobs.pending]
    free = _with_free_keys(connection, jobs, ended)
    if free:
        connection.execute(retry_statement(jobs), {"now": now}, free)
    if waiting:
        connection.execute(run_now_statement(jobs), {"now": now}, waiting)
    return BulkResult(changed=len(free) + len(waiting), held=len(ended) - len(free))


def _with_free_keys(connection: Connection, jobs: JobTable, ended: Sequence[Any]) -> list[int]:
    """Those that may live again: of several with one unique key the first, and none while another job holds it.

    Who takes a key between this look and the change makes the database refuse, and the slice is done again.
    """
    keys = {f"key_{number}": row[2] for number, row in enumerate(ended) if _would_hold(*row[2:])}
    look = held_among_statement(connection.dialect, jobs, list(keys))
    taken = set(connection.execute(look, keys).scalars()) if keys else set()
    free = []
    for job_id, _status, key, scope, claims in ended:
        if _would_hold(key, scope, claims):
            if key in taken:
                continue
            taken.add(key)
        free.append(job_id)
    return free


def _would_hold(key: str | None, scope: str, claims: int) -> bool:
    """Once it is pending again. A key that is held for a time does not depend on that."""
    return key is not None and (scope == LIVE or (scope == WHILE_PENDING and claims == 0))


@cache
def retryable_statement(jobs: JobTable) -> str:
    c = jobs.c
    columns = ", ".join((c.id, c.status, c.unique_key, c.unique_scope, c.claims))
    waits = f"({c.status} = '{jobs.pending}' AND {c.run_at} > :soon)"
    which = f"{{ids of {c.id}}} AND ({_ended(jobs)} OR {waits})"
    return f"SELECT {columns} FROM {jobs.table} WHERE {which} ORDER BY {c.id}"


@cache
def retry_statement(jobs: JobTable) -> str:
    """As it was when it was new, but for its number of claims, its checkpoint and what is known of its past."""
    c = jobs.c
    zero = ", ".join(f"{each} = 0" for each in (c.attempts, c.crashes, c.interruptions, c.suspect, c.stalled))
    owner = (c.worker_id, c.locked_at, c.lease_until, c.started_at, c.finished_at, c.duration_ms)
    gone = ", ".join(f"{each} = NULL" for each in (*owner, c.cancel_reason, c.waiting_for))
    expiry = f"{c.expires_at} = CASE WHEN {c.expires_at} <= :now THEN NULL ELSE {c.expires_at} END"
    return (
        f"UPDATE {jobs.table} SET {c.status} = '{jobs.pending}', {c.run_at} = :now, {zero}, {gone}, {expiry}"
        f" WHERE {{ids of {c.id}}} AND {_ended(jobs)}"
    )


@cache
def run_now_statement(jobs: JobTable) -> str:
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.run_at} = :now, {c.waiting_for} = NULL"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.pending}'"
    )


def _ended(jobs: JobTable) -> str:
    return f"{jobs.c.status} IN ('{jobs.dead}', '{jobs.cancelled}')"


def prune_all(database: Database, jobs: JobTable, keep: Keep, actor: Actor, tell: OnProgress = no_progress) -> int:
    """As cycles do it, and no sooner than they would; but to the end."""
    deed = AuditEntry(actor, "prune", "what is old enough", database.clock.now())
    total = 0
    while gone := prune(database, jobs, keep):
        database.run(partial(deed.add, jobs=gone))
        total += gone
        tell(gone)
    return total


def count_old(connection: Connection, jobs: JobTable, keep: Keep, now: datetime) -> dict[str, int]:
    """The rows of each table that would go; one more than MOST_COUNTED stands for any number above."""
    old: Counter[str] = Counter()
    for search in searches(jobs, find_lanes(connection, jobs), keep, now):
        left = MAX_MATCHING_COUNTED + 1 - old[search.table]
        if left > 0:
            looking = f"SELECT {search.key} FROM {search.table} WHERE {search.old} LIMIT {left}"
            counting = f"SELECT COUNT(*) FROM ({looking}) AS old_rows"
            old[search.table] += int(connection.execute(counting, search.values).scalar())
    return {table: number for table, number in old.items() if number}
