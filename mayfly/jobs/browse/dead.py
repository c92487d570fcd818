"""Dead jobs by type and error: the fingerprint of their last attempt says which of them died of the same."""

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.jobs.browse.capped import facts_of, read_row
from mayfly.jobs.browse.jobs import one_line
from mayfly.jobs.which import Which, ranges
from mayfly.schema import DEAD, JobTable
from mayfly.wording import ERROR_LIMIT

LOOKED_AT = 10_000  # the newest dead jobs
MOST_GROUPS = 100


class DeadGroup(NamedTuple):
    type: str
    error: str  # its fingerprint; empty where no attempt is kept any more
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    newest_id: int
    message: str | None = None  # of the newest

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class DeadGroups(NamedTuple):
    groups: tuple[DeadGroup, ...]  # most frequent first
    looked_at: int
    is_cut: bool  # there are more dead jobs, or more groups, than these

    def facts(self) -> dict[str, Any]:
        groups = [each.facts() for each in self.groups]
        return {"groups": groups, "looked_at": self.looked_at, "is_cut": self.is_cut}


def list_dead(connection: Connection, jobs: JobTable, lane: str | None = None) -> DeadGroups:
    """Of the newest in each lane and priority, as many as are worth reading."""
    which = Which(lane=lane, status=DEAD).checked()
    found = ranges(connection, jobs, which, {DEAD: ""}, {})
    share = LOOKED_AT // max(1, len(found))
    looks = [each.find(connection, share + 1, newest_first=True) for each in found]
    ids = [row[0] for look in looks for row in look[:share]]
    if not ids:
        return DeadGroups((), 0, is_cut=False)
    rows = connection.execute(groups_statement(jobs), {"size": MOST_GROUPS + 1}, ids).all()
    groups = [DeadGroup(**read_row(DeadGroup._fields[:-1], row)) for row in rows[:MOST_GROUPS]]
    is_cut = len(rows) > MOST_GROUPS or any(len(look) > share for look in looks)
    return DeadGroups(tuple(_with_messages(connection, jobs, groups)), len(ids), is_cut)


def _with_messages(connection: Connection, jobs: JobTable, groups: Sequence[DeadGroup]) -> list[DeadGroup]:
    ids = [each.newest_id for each in groups]
    messages = dict(connection.execute(messages_statement(jobs), ids=ids).all())
    return [each._replace(message=one_line(messages.get(each.newest_id))) for each in groups]


@cache
def groups_statement(jobs: JobTable) -> str:
    c, table = jobs.c, jobs.table
    last = f"(SELECT MAX(id) FROM mayfly_attempts WHERE job_id = {table}.{c.id})"
    fingerprint = "COALESCE(a.fingerprint, '')"
    finished_at = f"{table}.{c.finished_at}"
    return (
        f"SELECT {table}.{c.type}, {fingerprint}, COUNT(*), MIN({finished_at}), MAX({finished_at}),"
        f" MAX({table}.{c.id}) FROM {table} LEFT JOIN mayfly_attempts AS a ON a.id = {last}"
        f" WHERE {{ids of {table}.{c.id}}} GROUP BY {table}.{c.type}, {fingerprint}"
        f" ORDER BY COUNT(*) DESC, MAX({table}.{c.id}) DESC LIMIT :size"
    )


@cache
def messages_statement(jobs: JobTable) -> str:
    c = jobs.c
    return f"SELECT {c.id}, SUBSTR({c.last_error}, 1, {ERROR_LIMIT}) FROM {jobs.table} WHERE {{ids of {c.id}}}"
