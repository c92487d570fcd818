"""`mayfly.cancel`, as applications and handlers call it."""

from collections.abc import Iterable
from datetime import timedelta

from mayfly.app import current_app
from mayfly.engine import Database
from mayfly.errors import BadField
from mayfly.jobs import operate
from mayfly.jobs.operate import Cancelled
from mayfly.jobs.which import Which
from mayfly.outcome import Seconds, seconds
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
    which = jobs_meant(database, ids, group_key, lane, type, status, older_than)
    return operate.cancel(database, JOBS, which, reason)


def jobs_meant(
    database: Database,
    ids: Iterable[int],
    group_key: str | None,
    lane: str | None,
    type: str | None,
    status: str | None,
    older_than: Seconds | None,
) -> Which:
    before = None if older_than is None else database.clock.now() - _age(older_than)
    return Which(tuple(ids) or None, group_key, lane, type, status, before).checked()


def _age(given: Seconds) -> timedelta:
    try:
        age = timedelta(seconds=seconds(given))
    except (TypeError, ValueError) as error:
        raise BadField("older_than", given, "a number of seconds or a timedelta, within a hundred years") from error
    if age < timedelta(0):
        raise BadField("older_than", given, "no less than 0")
    return age
