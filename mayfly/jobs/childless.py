"""Looks at batches that take nothing: which of them have no live job left."""

from collections.abc import Iterable
from functools import cache

from mayfly.connection import Connection
from mayfly.schema import JobTable

OPEN_PER_LOOK = 1000
IS_OPEN = "sealed_at IS NOT NULL AND completed_at IS NULL"
SEALED = f"SELECT batch_key FROM mayfly_batches WHERE {IS_OPEN} ORDER BY batch_key LIMIT {OPEN_PER_LOOK}"

Witnesses = dict[str, int]  # a live job of each batch, when somebody last looked


def childless(connection: Connection, jobs: JobTable) -> list[str]:
    """Batches that are over, and that nobody has seen to be."""
    sealed = [key for (key,) in connection.execute(SEALED).all()]
    return over(connection, jobs, sealed, {})


def over(connection: Connection, jobs: JobTable, keys: Iterable[str], witnesses: Witnesses) -> list[str]:
    """Those of these groups that have no live job."""
    return [key for key in keys if not _is_live(connection, jobs, key, witnesses)]


def _is_live(connection: Connection, jobs: JobTable, key: str, witnesses: Witnesses) -> bool:
    """The youngest live job is mostly the last to end, so it is asked for first as long as it lives."""
    if key in witnesses:
        asked = {"id": witnesses[key], "key": key}
        if connection.execute(witness_statement(jobs), asked).first() is not None:
            return True
    found = connection.execute(youngest_statement(jobs), {"key": key}).scalar()
    if found is None:
        witnesses.pop(key, None)
        return False
    witnesses[key] = found
    return True


@cache
def youngest_statement(jobs: JobTable) -> str:
    """Backwards along the index of groups: those that ended are mostly the older ones."""
    c = jobs.c
    return (
        f"SELECT {c.id} FROM {jobs.table} WHERE {c.group_key} = :key AND {_live(jobs)} ORDER BY {c.id} DESC LIMIT 1"
    )


@cache
def witness_statement(jobs: JobTable) -> str:
    c = jobs.c
    return f"SELECT {c.id} FROM {jobs.table} WHERE {c.id} = :id AND {c.group_key} = :key AND {_live(jobs)}"


def _live(jobs: JobTable) -> str:
    return f"{jobs.c.status} IN ('{jobs.pending}', '{jobs.processing}')"
