"""The jobs next to one in its group: the steps of its chain, the children of its batch."""

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.jobs.browse.capped import read_row
from mayfly.schema import JobTable

MOST_SHOWN = 5  # on each side


class Relative(NamedTuple):
    id: int
    type: str
    status: str
    created_at: datetime


class Family(NamedTuple):
    """Of a chain, those before it are the steps that led to it, and those after it those that it led to."""

    before: tuple[Relative, ...] = ()  # the nearest last
    after: tuple[Relative, ...] = ()


def read_family(connection: Connection, jobs: JobTable, job_id: int, group_key: str | None) -> Family:
    if group_key is None:
        return Family()
    values = {"key": group_key, "id": job_id, "size": MOST_SHOWN}
    before = connection.execute(near_statement(jobs, "<", "DESC"), values).all()
    after = connection.execute(near_statement(jobs, ">", "ASC"), values).all()
    return Family(
        tuple(_relative(jobs, row) for row in reversed(before)), tuple(_relative(jobs, row) for row in after)
    )


def _relative(jobs: JobTable, row: Any) -> Relative:
    known = read_row(Relative._fields, row)
    return Relative(**{**known, "status": jobs.word_of(known["status"])})


@cache
def near_statement(jobs: JobTable, side: str, order: str) -> str:
    c = jobs.c
    columns = ", ".join(getattr(c, name) for name in Relative._fields)
    where = f"{c.group_key} = :key AND {c.id} {side} :id"
    return f"SELECT {columns} FROM {jobs.table} WHERE {where} ORDER BY {c.id} {order} LIMIT :size"
