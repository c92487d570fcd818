"""Let dead jobs leave the list: cancelled, with who and why; the error they died of stays with them."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.jobs.audit import Deed
from mayfly.jobs.operate.cancelling import by_whom
from mayfly.jobs.operate.slices import Done, Errand, Tell, Verb, nobody
from mayfly.jobs.which import Open, Which
from mayfly.schema import DEAD, JobTable


def discardable(_jobs: JobTable) -> Open:
    return {DEAD: ""}


DISCARD = Verb("discard", discardable)


def discard(
    database: Database, jobs: JobTable, which: Which, actor: Actor, reason: str | None = None, tell: Tell = nobody
) -> Done:
    now, text = database.clock.now(), by_whom("discarded", actor, reason)
    errand = Errand(database, jobs, DISCARD, which, now)
    deed = Deed(actor, DISCARD.name, str(which), now, reason)
    return errand.carry_out(lambda connection, ids: _discard(connection, jobs, ids, text, now), deed, tell)


def _discard(connection: Connection, jobs: JobTable, ids: Sequence[int], reason: str, now: datetime) -> Done:
    return Done(changed=connection.execute(discard_statement(jobs), {"reason": reason, "now": now}, ids).rowcount)


@cache
def discard_statement(jobs: JobTable) -> str:
    """It is kept as long as one that is cancelled today."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.status} = '{jobs.cancelled}', {c.finished_at} = :now,"
        f" {c.cancel_reason} = :reason WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.dead}'"
    )
