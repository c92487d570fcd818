"""Put off jobs that wait. One that is due later anyway is left where it is."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from mayfly.actor import Actor
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.errors import BadField
from mayfly.jobs.audit import Deed
from mayfly.jobs.operate.cancelling import by_whom
from mayfly.jobs.operate.slices import Done, Errand, Tell, Verb, nobody
from mayfly.jobs.which import Open, Which
from mayfly.schema import PENDING, WAITING_LENGTH, JobTable


def delayable(jobs: JobTable) -> Open:
    """What was moved is not found again."""
    return {PENDING: f"{jobs.c.run_at} < :until"}


DELAY = Verb("delay", delayable)


def delay(
    database: Database,
    jobs: JobTable,
    which: Which,
    until: datetime,
    actor: Actor,
    reason: str | None = None,
    tell: Tell = nobody,
) -> Done:
    now = database.clock.now()
    if until <= now:
        raise BadField("until", until.isoformat(timespec="seconds"), "a time that is still to come")
    errand = Errand(database, jobs, DELAY, which, now, until)
    values = {"until": until, "waiting_for": by_whom("delayed", actor, reason)[:WAITING_LENGTH]}
    deed = Deed(actor, DELAY.name, f"{which} until={until.isoformat(timespec='seconds')}", now, reason)

    def change(connection: Connection, ids: Sequence[int]) -> Done:
        return Done(changed=connection.execute(delay_statement(jobs), values, ids).rowcount)

    return errand.carry_out(change, deed, tell)


@cache
def delay_statement(jobs: JobTable) -> str:
    """The reason goes with the time: see docs/decisions.md."""
    c = jobs.c
    return (
        f"UPDATE {jobs.table} SET {c.run_at} = :until, {c.waiting_for} = :waiting_for"
        f" WHERE {{ids of {c.id}}} AND {c.status} = '{jobs.pending}' AND {c.run_at} < :until"
    )
