"""Cancel jobs: those that wait at once, those that run by a flag that their handlers can see."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

from mayfly.admin.audit import Actor, AuditEntry
from mayfly.admin.bulk import (
    DUE_SOON,
    MAX_MATCHING_COUNTED,
    BulkAction,
    BulkResult,
    OnProgress,
    Verb,
    no_progress,
)
from mayfly.admin.filters import JobFilter
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
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, WAITING_LENGTH


class Cancelled(NamedTuple):
    """How many jobs have ended by it, and how many run and were told to end."""

    ended: int = 0
    told: int = 0


CANCEL = Verb("cancel", {PENDING: "", PROCESSING: "cancel_reason IS NULL"})


def cancel(
    database: Database,
    which: JobFilter,
    actor: Actor | None = None,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> Cancelled:
    """Without an actor it is Mayfly's own doing, and nobody's deed."""
    now, text = database.clock.now(), cancelled_by("cancelled", actor, reason)
    deed = None if actor is None else AuditEntry(actor, CANCEL.name, str(which), now, reason)
    errand = BulkAction(database, CANCEL, which, now)
    done = errand.carry_out(lambda connection, ids: _cancel(connection, ids, text, now), deed, tell)
    if done.changed:
        complete_all(database)  # the last job of a batch may have been among them
    return Cancelled(done.changed, done.told)


def cancelled_by(what: str, actor: Actor | None, reason: str | None) -> str:
    """As it is kept with each job."""
    who = f"{what} by {actor.name}" if actor else what
    return bounded(storable(f"{who}: {reason}" if reason else who))


def _cancel(connection: Connection, ids: Sequence[int], reason: str, now: datetime) -> BulkResult:
    """What each of them is by now decides: some may have been claimed, or have ended, since the look."""
    locking = f"{live_statement()}{connection.dialect.row_lock}"
    found = connection.execute(locking, ids=ids).all()
    waiting = [job_id for job_id, status in found if status == PENDING]
    running = [job_id for job_id, status in found if status == PROCESSING]
    if waiting:
        connection.execute(cancel_statement(), {"reason": reason, "now": now}, waiting)
    if running:
        connection.execute(request_cancel_statement(), {"reason": reason}, running)
    return BulkResult(changed=len(waiting), told=len(running))


@cache
def live_statement() -> str:
    live = "status IN ('pending', 'processing')"
    return f"SELECT id, status FROM mayfly_jobs WHERE {{ids of id}} AND {live} ORDER BY id"


@cache
def cancel_statement() -> str:
    """What was not due yet is now: pruning believes that whatever ended before a time was due before it."""
    return (
        "UPDATE mayfly_jobs SET status = 'cancelled', finished_at = :now, last_error = :reason,"
        " run_at = CASE WHEN run_at > :now THEN :now ELSE run_at END"
        " WHERE {ids of id} AND status = 'pending'"
    )


@cache
def request_cancel_statement() -> str:
    """Whoever came first has given the reason."""
    return (
        "UPDATE mayfly_jobs SET cancel_reason = :reason"
        " WHERE {ids of id} AND status = 'processing' AND cancel_reason IS NULL"
    )


DELAY = Verb("delay", {PENDING: "run_at < :until"})  # a job that was delayed is not found again


def delay(
    database: Database,
    which: JobFilter,
    until: datetime,
    actor: Actor,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> BulkResult:
    now = database.clock.now()
    if until <= now:
        raise BadField("until", until.isoformat(timespec="seconds"), "a time that is still to come")
    errand = BulkAction(database, DELAY, which, now, until)
    values = {"until": until, "waiting_for": cancelled_by("delayed", actor, reason)[:WAITING_LENGTH]}
    deed = AuditEntry(actor, DELAY.name, f"{which} until={until.isoformat(timespec='seconds')}", now, reason)

    def change(connection: Connection, ids: Sequence[int]) -> BulkResult:
        return BulkResult(changed=connection.execute(delay_statement(), values, ids).rowcount)

    return errand.carry_out(change, deed, tell)


@cache
def delay_statement() -> str:
    """The reason goes with the time: see docs/decisions.md."""
    return (
        "UPDATE mayfly_jobs SET run_at = :until, waiting_for = :waiting_for"
        " WHERE {ids of id} AND status = 'pending' AND run_at < :until"
    )


DISCARD = Verb("discard", {DEAD: ""})


def discard(
    database: Database,
    which: JobFilter,
    actor: Actor,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> BulkResult:
    now, text = database.clock.now(), cancelled_by("discarded", actor, reason)
    errand = BulkAction(database, DISCARD, which, now)
    deed = AuditEntry(actor, DISCARD.name, str(which), now, reason)
    return errand.carry_out(lambda connection, ids: _discard(connection, ids, text, now), deed, tell)


def _discard(connection: Connection, ids: Sequence[int], reason: str, now: datetime) -> BulkResult:
    return BulkResult(changed=connection.execute(discard_statement(), {"reason": reason, "now": now}, ids).rowcount)


@cache
def discard_statement() -> str:
    """It is kept as long as one that is cancelled today."""
    return (
        "UPDATE mayfly_jobs SET status = 'cancelled', finished_at = :now,"
        " cancel_reason = :reason WHERE {ids of id} AND status = 'dead'"
    )


RETRY = Verb("retry", {DEAD: "", CANCELLED: "", PENDING: "run_at > :soon"}, default_status=DEAD)


def retry(
    database: Database,
    which: JobFilter,
    actor: Actor,
    reason: str | None = None,
    tell: OnProgress = no_progress,
) -> BulkResult:
    """A filter that names no status means dead jobs."""
    now = database.clock.now()
    errand = BulkAction(database, RETRY, which, now)
    deed, status = AuditEntry(actor, RETRY.name, str(which), now, reason), errand.meant.status

    def change(connection: Connection, ids: Sequence[int]) -> BulkResult:
        return _retry(connection, ids, now, RETRY.applies_to if status is None else (status,))

    return errand.carry_out(change, deed, tell)


def _retry(connection: Connection, ids: Sequence[int], now: datetime, statuses: Collection[str]) -> BulkResult:
    """What each of them is by now decides: somebody else may retry them at the same time."""
    values = {"soon": now + DUE_SOON}
    rows = connection.execute(f"{retryable_statement()}{connection.dialect.row_lock}", values, ids).all()
    found = [row for row in rows if row[1] in statuses]
    waiting = [row[0] for row in found if row[1] == PENDING]
    ended = [row for row in found if row[1] != PENDING]
    free = _with_free_keys(connection, ended)
    if free:
        connection.execute(retry_statement(), {"now": now}, free)
    if waiting:
        connection.execute(run_now_statement(), {"now": now}, waiting)
    return BulkResult(changed=len(free) + len(waiting), held=len(ended) - len(free))


def _with_free_keys(connection: Connection, ended: Sequence[Any]) -> list[int]:
    """Those that may live again: of several with one unique key the first, and none while another job holds it.

    Who takes a key between this look and the change makes the database refuse, and the slice is done again.
    """
    keys = {f"key_{number}": row[2] for number, row in enumerate(ended) if _would_hold(*row[2:])}
    look = held_among_statement(connection.dialect, list(keys))
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
def retryable_statement() -> str:
    columns = ", ".join(("id", "status", "unique_key", "unique_scope", "claims"))
    waits = "(status = 'pending' AND run_at > :soon)"
    which = f"{{ids of id}} AND ({_ended()} OR {waits})"
    return f"SELECT {columns} FROM mayfly_jobs WHERE {which} ORDER BY id"


@cache
def retry_statement() -> str:
    """As it was when it was new, but for its number of claims, its checkpoint and what is known of its past."""
    zero = ", ".join(f"{each} = 0" for each in ("attempts", "crashes", "interruptions", "suspect", "stalled"))
    owner = ("worker_id", "locked_at", "lease_until", "started_at", "finished_at", "duration_ms")
    gone = ", ".join(f"{each} = NULL" for each in (*owner, "cancel_reason", "waiting_for"))
    expiry = "expires_at = CASE WHEN expires_at <= :now THEN NULL ELSE expires_at END"
    return (
        f"UPDATE mayfly_jobs SET status = 'pending', run_at = :now, {zero}, {gone}, {expiry}"
        f" WHERE {{ids of id}} AND {_ended()}"
    )


@cache
def run_now_statement() -> str:
    return "UPDATE mayfly_jobs SET run_at = :now, waiting_for = NULL WHERE {ids of id} AND status = 'pending'"


def _ended() -> str:
    return "status IN ('dead', 'cancelled')"


def prune_all(database: Database, keep: Keep, actor: Actor, tell: OnProgress = no_progress) -> int:
    """As cycles do it, and no sooner than they would; but to the end."""
    deed = AuditEntry(actor, "prune", "what is old enough", database.clock.now())
    total = 0
    while gone := prune(database, keep):
        database.run(partial(deed.add, jobs=gone))
        total += gone
        tell(gone)
    return total


def count_old(connection: Connection, keep: Keep, now: datetime) -> dict[str, int]:
    """The rows of each table that would go; one more than MOST_COUNTED stands for any number above."""
    old: Counter[str] = Counter()
    for search in searches(find_lanes(connection), keep, now):
        left = MAX_MATCHING_COUNTED + 1 - old[search.table]
        if left > 0:
            looking = f"SELECT {search.key} FROM {search.table} WHERE {search.old} LIMIT {left}"
            counting = f"SELECT COUNT(*) FROM ({looking}) AS old_rows"
            old[search.table] += int(connection.execute(counting, search.values).scalar())
    return {table: number for table, number in old.items() if number}
