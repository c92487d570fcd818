"""Give jobs that ended all their tries again, and those that wait for a later one theirs now: always the same row."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.audit import Deed
from mayfly.jobs.operate.slices import SOON, Done, Errand, Tell, Verb, nobody
from mayfly.jobs.terms import LIVE
from mayfly.jobs.terms import PENDING as WHILE_PENDING
from mayfly.jobs.unique import held_among_statement
from mayfly.jobs.which import Open, Which
from mayfly.schema import CANCELLED, DEAD, PENDING, JobTable


def retryable(jobs: JobTable) -> Open:
    return {DEAD: "", CANCELLED: "", PENDING: f"{jobs.c.run_at} > :soon"}


RETRY = Verb("retry", retryable, asks_for=DEAD)


def retry(
    database: Database, jobs: JobTable, which: Which, actor: Actor, reason: str | None = None, tell: Tell = nobody
) -> Done:
    """A filter that names no status means dead jobs."""
    now = database.clock.now()
    errand = Errand(database, jobs, RETRY, which, now)
    deed, status = Deed(actor, RETRY.name, str(which), now, reason), errand.meant.status

    def change(connection: Connection, ids: Sequence[int]) -> Done:
        return _retry(connection, jobs, ids, now, retryable(jobs) if status is None else (status,))

    return errand.carry_out(change, deed, tell)


def _retry(
    connection: Connection, jobs: JobTable, ids: Sequence[int], now: datetime, statuses: Collection[str]
) -> Done:
    """What each of them is by now decides: somebody else may retry them at the same time."""
    values = {"soon": now + SOON}
    rows = connection.execute(f"{look_statement(jobs)}{connection.dialect.row_lock}", values, ids).all()
    found = [row for row in rows if jobs.word_of(row[1]) in statuses]
    waiting = [row[0] for row in found if row[1] == jobs.pending]
    ended = [row for row in found if row[1] != jobs.pending]
    free = _with_free_keys(connection, jobs, ended)
    if free:
        connection.execute(retry_statement(jobs), {"now": now}, free)
    if waiting:
        connection.execute(hurry_statement(jobs), {"now": now}, waiting)
    return Done(changed=len(free) + len(waiting), held=len(ended) - len(free))


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
def look_statement(jobs: JobTable) -> str:
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
def hurry_statement(jobs: JobTable) -> str:
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.run_at} = :now, {c.waiting_for} = NULL"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.pending}'"
    )


def _ended(jobs: JobTable) -> str:
    return f"{jobs.c.status} IN ('{jobs.dead}', '{jobs.cancelled}')"
