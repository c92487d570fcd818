"""Cancel jobs: those that wait at once, those that run by a flag that their handlers can see."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache, partial
from typing import NamedTuple

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.engine import Database
from mayfly.jobs.batches import complete_all
from mayfly.jobs.chains import end_chains
from mayfly.jobs.which import LONG_AGO, Search, Which, searches
from mayfly.schema import JobTable
from mayfly.wording import bounded, storable

ROWS_PER_SLICE = 1000
MOST_COUNTED = 10_000


class Cancelled(NamedTuple):
    """How many jobs have ended by it, and how many run and were told to end."""

    ended: int = 0
    told: int = 0


def cancel(
    database: Database, jobs: JobTable, which: Which, reason: str | None = None, by: str | None = None
) -> Cancelled:
    """Each slice is a commit of its own: what was cancelled before somebody or something stops this stays so."""
    now, text = database.clock.now(), _wording(reason, by)
    done = [
        slice_done
        for search in _searches(database, jobs, which)
        for slice_done in _cancel_found(database, jobs, search, text, now)
    ]
    ended = sum(each.ended for each in done)
    if ended:
        complete_all(database, jobs)  # the last job of a batch may have been among them
    return Cancelled(ended, sum(each.told for each in done))


def count_found(database: Database, jobs: JobTable, which: Which) -> int:
    """How many that would be; one more than MOST_COUNTED stands for any number above."""
    total = 0
    for search in _searches(database, jobs, which):
        total += database.read(partial(search.number, most=MOST_COUNTED + 1 - total))
        if total > MOST_COUNTED:
            break
    return total


def _searches(database: Database, jobs: JobTable, which: Which) -> list[Search]:
    meant = which.checked()
    return database.read(lambda connection: searches(connection, jobs, meant, ROWS_PER_SLICE))


def _cancel_found(database: Database, jobs: JobTable, search: Search, reason: str, now: datetime) -> list[Cancelled]:
    """What was dealt with is not found again."""
    done = []
    after = LONG_AGO
    while found := database.read(partial(search.find, size=ROWS_PER_SLICE, after=after)):
        after = utc_from_driver(found[-1][1])
        done.append(database.run(partial(_cancel, jobs, [row[0] for row in found], reason, now)))
    return done


def _wording(reason: str | None, by: str | None) -> str:
    """As it stands in last_error."""
    who = f"cancelled by {by}" if by else "cancelled"
    return bounded(storable(f"{who}: {reason}" if reason else who))


def _cancel(jobs: JobTable, ids: Sequence[int], reason: str, now: datetime, connection: Connection) -> Cancelled:
    """What each of them is by now decides: some may have been claimed, or have ended, since the look."""
    locking = f"{live_statement(jobs)}{connection.dialect.row_lock}"
    found = connection.execute(locking, ids=ids).all()
    waiting = [job_id for job_id, status in found if status == jobs.pending]
    running = [job_id for job_id, status in found if status == jobs.processing]
    if waiting:
        connection.execute(cancel_statement(jobs), {"reason": reason, "now": now}, waiting)
        end_chains(connection, waiting)
    if running:
        connection.execute(tell_statement(jobs), {"reason": reason}, running)
    return Cancelled(len(waiting), len(running))


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
