"""Cancel jobs: those that wait at once, those that run by a flag that their handlers can see."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.audit import Deed
from mayfly.jobs.batches import complete_all
from mayfly.jobs.operate.slices import Done, Errand, Tell, Verb, nobody
from mayfly.jobs.which import Open, Which
from mayfly.schema import PENDING, PROCESSING, JobTable
from mayfly.wording import bounded, storable


class Cancelled(NamedTuple):
    """How many jobs have ended by it, and how many run and were told to end."""

    ended: int = 0
    told: int = 0


def cancellable(jobs: JobTable) -> Open:
    return {PENDING: "", PROCESSING: f"{jobs.c.cancel_reason} IS NULL"}


CANCEL = Verb("cancel", cancellable)


def cancel(
    database: Database,
    jobs: JobTable,
    which: Which,
    actor: Actor | None = None,
    reason: str | None = None,
    tell: Tell = nobody,
) -> Cancelled:
    """Without an actor it is Mayfly's own doing, and nobody's deed."""
    now, text = database.clock.now(), by_whom("cancelled", actor, reason)
    deed = None if actor is None else Deed(actor, CANCEL.name, str(which), now, reason)
    errand = Errand(database, jobs, CANCEL, which, now)
    done = errand.carry_out(lambda connection, ids: _cancel(connection, jobs, ids, text, now), deed, tell)
    if done.changed:
        complete_all(database, jobs)  # the last job of a batch may have been among them
    return Cancelled(done.changed, done.told)


def by_whom(what: str, actor: Actor | None, reason: str | None) -> str:
    """As it is kept with each job."""
    who = f"{what} by {actor.name}" if actor else what
    return bounded(storable(f"{who}: {reason}" if reason else who))


def _cancel(connection: Connection, jobs: JobTable, ids: Sequence[int], reason: str, now: datetime) -> Done:
    """What each of them is by now decides: some may have been claimed, or have ended, since the look."""
    locking = f"{live_statement(jobs)}{connection.dialect.row_lock}"
    found = connection.execute(locking, ids=ids).all()
    waiting = [job_id for job_id, status in found if status == jobs.pending]
    running = [job_id for job_id, status in found if status == jobs.processing]
    if waiting:
        connection.execute(cancel_statement(jobs), {"reason": reason, "now": now}, waiting)
    if running:
        connection.execute(tell_statement(jobs), {"reason": reason}, running)
    return Done(changed=len(waiting), told=len(running))


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
def tell_statement(jobs: JobTable) -> str:
    """Whoever came first has given the reason."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.cancel_reason} = :reason"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.processing}' AND {c.cancel_reason} IS NULL"
    )
