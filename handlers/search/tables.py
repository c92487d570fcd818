"""Which index tables there are, and which of them is searched.

A table is named here before it is made and until it is dropped, so none is forgotten whoever is killed when. The
pointer is one row: whoever reads it finds a whole index, the old one or the new one.
"""

import re
from typing import Any

from mayfly import Job

STANDING, DROPPING = "standing", "dropping"
NAME = re.compile(r"app_search_[0-9]{1,19}")  # what stands in a row becomes part of a statement: it must be ours
POINTER = ("pointer", "name", "entries", "swapped_at")
REGISTERED = ("name", "job_id", "state")

CURRENT = "SELECT name FROM app_search_pointer WHERE pointer = 'current'"
STATE = "SELECT state FROM app_search_tables WHERE name = :name"
MARK = "UPDATE app_search_tables SET state = :state WHERE name = :name"
FORGET = "DELETE FROM app_search_tables WHERE name = :name"
USELESS = (
    "SELECT name FROM app_search_tables WHERE name <> :mine"
    " AND name NOT IN (SELECT name FROM app_search_pointer)"
    " AND NOT EXISTS (SELECT 1 FROM mayfly_jobs WHERE mayfly_jobs.id = app_search_tables.job_id"
    " AND mayfly_jobs.status IN ('pending', 'processing') AND app_search_tables.state = 'standing')"
    " ORDER BY name"
)


def current_table(connection: Any) -> str | None:
    name = connection.execute(CURRENT).scalar()
    return None if name is None else checked(name)


def checked(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no search index")
    return name


def table_of(job: Job) -> str:
    return f"app_search_{job.id}"


def state_of(job: Job, name: str) -> str | None:
    found = job.read(lambda connection: connection.execute(STATE, {"name": name}).scalar())
    return None if found is None else str(found)


def register(job: Job, name: str) -> None:
    row = {"name": name, "job_id": job.id, "state": STANDING}

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.insert_missing("app_search_tables", ("name",), REGISTERED), row)

    job.write(write)


def swap_in(job: Job, name: str, entries: int) -> bool:
    """Under the lock of its row: a table that somebody has begun to drop is never pointed to. Whether it is now."""
    row = {"pointer": "current", "name": name, "entries": entries, "swapped_at": job.now}

    def write(connection: Any) -> bool:
        if _locked_state(connection, name) != STANDING:
            return False
        connection.execute(connection.dialect.upsert("app_search_pointer", ("pointer",), POINTER), row)
        return True

    return job.write(write)


def sweep(job: Job, mine: str) -> int:
    """Drop what is neither searched nor being filled; how many."""
    names = job.read(lambda connection: connection.execute(USELESS, {"mine": mine}).scalars())
    for name in names:
        drop(job, checked(name))
    return len(names)


def drop(job: Job, name: str) -> None:
    """In three steps, each of which may be the last: who comes next finds the row, and goes on."""

    def mark(connection: Any) -> bool:
        if _locked_state(connection, name) is None or current_table(connection) == name:
            return False
        connection.execute(MARK, {"name": name, "state": DROPPING})
        return True

    if job.write(mark):
        job.write(lambda connection: connection.execute(f"DROP TABLE IF EXISTS {checked(name)}"))
        job.write(lambda connection: connection.execute(FORGET, {"name": name}))


def _locked_state(connection: Any, name: str) -> str | None:
    found = connection.execute(f"{STATE}{connection.dialect.row_lock}", {"name": name}).scalar()
    return None if found is None else str(found)
