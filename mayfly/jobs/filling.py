"""End the filling of a batch: by its producer when the block ends, or by an operator when the producer has died."""

from datetime import timedelta

from mayfly.actor import Actor
from mayfly.engine import Database
from mayfly.jobs.batches import abandon, complete, seal
from mayfly.jobs.operate import Cancelled, cancel
from mayfly.jobs.which import Which
from mayfly.schema import JobTable

LONG = timedelta(hours=1)  # who fills a batch for longer has probably died over it


def seal_batch(database: Database, jobs: JobTable, key: str) -> bool:
    """All of its jobs may have ended by now, or there is none. False if it is not being filled."""
    now = database.clock.now()
    is_sealed = database.run(lambda connection: seal(connection, key, now))
    if is_sealed:
        complete(database, jobs, [key], {})
    return is_sealed


def abandon_batch(database: Database, jobs: JobTable, key: str, reason: str, actor: Actor | None = None) -> Cancelled:
    """It is never complete, and what waits in it is cancelled. May be repeated after a kill between the two."""
    now = database.clock.now()
    database.run(lambda connection: abandon(connection, key, now))
    which = Which(group_key=key, status=jobs.pending)
    return cancel(database, jobs, which, actor, f"the batch {key} was abandoned: {reason}")
