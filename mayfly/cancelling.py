"""`mayfly.cancel`, as applications and handlers call it."""

from datetime import datetime, timedelta

from mayfly.actor import PYTHON, this_user
from mayfly.app import current_app
from mayfly.engine import Database
from mayfly.errors import BadField
from mayfly.jobs import operate
from mayfly.jobs.operate import Cancelled
from mayfly.jobs.terms import span_of
from mayfly.jobs.which import Which
from mayfly.outcome import Seconds
from mayfly.schema import JOBS


def cancel(
    *ids: int,
    group_key: str | None = None,
    lane: str | None = None,
    type: str | None = None,
    status: str | None = None,
    older_than: Seconds | None = None,
    reason: str | None = None,
) -> Cancelled:
    """Cancel the unfinished jobs that have all of what is named: how many ended, and how many run and were told.

    Those that wait are cancelled at once. One that runs sees it by `job.cancelled`; if it returns all the same it is
    done, and if it comes back for another try it is cancelled instead.
    """
    database = current_app().database
    before = None if older_than is None else created_before(database, older_than)
    which = Which(ids or None, group_key, lane, type, status, before)
    return operate.cancel(database, JOBS, which, this_user(PYTHON), reason)


def created_before(database: Database, older_than: Seconds) -> datetime:
    """By the database's clock: what is older was enqueued before."""
    age = span_of("older_than", older_than)
    if age < timedelta(0):
        raise BadField("older_than", older_than, "no less than 0")
    return database.clock.now() - age
