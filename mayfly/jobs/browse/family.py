"""Whom a job comes from, whom it has enqueued, and who is next to it in its group."""

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.jobs.browse.capped import read_row
from mayfly.schema import JobTable

MOST_CHILDREN = 20
MOST_SHOWN = 5  # on each side


class Relative(NamedTuple):
    id: int
    type: str
    status: str
    created_at: datetime


class Family(NamedTuple):
    """Of a chain, those before it are the steps that led to it, and those after it those that it led to."""

    parent: Relative | None = None  # None also where it is no longer kept
    children: tuple[Relative, ...] = ()  # the oldest first
    has_more: bool = False  # children
    before: tuple[Relative, ...] = ()  # the nearest last
    after: tuple[Relative, ...] = ()


def read_family(
    connection: Connection, jobs: JobTable, job_id: int, parent_id: int | None, group_key: str | None
) -> Family:
    c = jobs.c

    def read(where: str, order: str, size: int, **values: Any) -> list[Relative]:
        found = connection.execute(relatives_statement(jobs, where, order), {**values, "size": size}).all()
        return [_relative(jobs, row) for row in found]

    parents = [] if parent_id is None else read(f"{c.id} = :id", "ASC", 1, id=parent_id)
    children = read(f"{c.parent_id} = :id", "ASC", MOST_CHILDREN + 1, id=job_id)
    family = Family(parents[0] if parents else None, tuple(children[:MOST_CHILDREN]), len(children) > MOST_CHILDREN)
    if group_key is None:
        return family
    before = read(f"{c.group_key} = :key AND {c.id} < :id", "DESC", MOST_SHOWN, key=group_key, id=job_id)
    after = read(f"{c.group_key} = :key AND {c.id} > :id", "ASC", MOST_SHOWN, key=group_key, id=job_id)
    return family._replace(before=tuple(reversed(before)), after=tuple(after))


def _relative(jobs: JobTable, row: Any) -> Relative:
    known = read_row(Relative._fields, row)
    return Relative(**{**known, "status": jobs.word_of(known["status"])})


@cache
def relatives_statement(jobs: JobTable, where: str, order: str) -> str:
    columns = ", ".join(getattr(jobs.c, name) for name in Relative._fields)
    return f"SELECT {columns} FROM {jobs.table} WHERE {where} ORDER BY {jobs.c.id} {order} LIMIT :size"
