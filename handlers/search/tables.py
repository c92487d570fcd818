"""The registry of index tables, and the pointer to the current one.

An index table is registered before it is created and until it is dropped, so none is left over if a job is killed.
The pointer is one row: a reader always finds a complete index, the old or the new one.
"""

import re

from sqlalchemy import BigInteger, Column, Connection, Select, String, Table, delete, select, text, update
from sqlalchemy import column as light_column
from sqlalchemy import table as light_table

from handlers.schema import Id, UtcTimestamp, metadata
from handlers.upsert import insert_missing, upsert
from mayfly import Job

STANDING, DROPPING = "standing", "dropping"
INDEX_NAME = re.compile(r"app_search_[0-9]{1,19}")  # the name becomes part of SQL statements

search_tables = Table(
    "app_search_tables",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("job_id", Id, nullable=False),  # the job that fills it
    Column("state", String(16), nullable=False),
)

search_pointer = Table(
    "app_search_pointer",
    metadata,
    Column("pointer", String(16), primary_key=True),
    Column("name", String(64), nullable=False),  # the table that is searched
    Column("entries", BigInteger, nullable=False),
    Column("swapped_at", UtcTimestamp, nullable=False),
)

jobs = light_table("mayfly_jobs", light_column("id"), light_column("status"))


def current_table(connection: Connection) -> str | None:
    name = connection.scalar(select(search_pointer.c.name).where(search_pointer.c.pointer == "current"))
    return None if name is None else checked(name)


def checked(name: str) -> str:
    if INDEX_NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not the name of a search index")
    return name


def index_name(job: Job) -> str:
    return f"app_search_{job.id}"


def state_of(job: Job, name: str) -> str | None:
    return job.read(lambda connection: connection.scalar(_state(name)))


def register(job: Job, name: str) -> None:
    row = {"name": name, "job_id": job.id, "state": STANDING}
    job.write(lambda connection: insert_missing(connection, search_tables, row))


def swap_in(job: Job, name: str, entries: int) -> bool:
    """Point to this table; return False if another job has begun to drop it."""
    row = {"pointer": "current", "name": name, "entries": entries, "swapped_at": job.now}

    def write(connection: Connection) -> bool:
        if _locked_state(connection, name) != STANDING:
            return False
        upsert(connection, search_pointer, row)
        return True

    return job.write(write)


def sweep(job: Job, own: str) -> int:
    """Drop the tables that are neither searched nor being filled; return how many."""
    t = search_tables.c
    is_live = jobs.c.status.in_(("pending", "processing")) & (t.state == STANDING)
    is_filled = select(jobs.c.id).where(jobs.c.id == t.job_id, is_live).exists()
    pointed = select(search_pointer.c.name)
    useless = select(t.name).where(t.name != own, t.name.not_in(pointed), ~is_filled).order_by(t.name)
    names = job.read(lambda connection: connection.scalars(useless).all())
    for name in names:
        drop(job, checked(name))
    return len(names)


def drop(job: Job, name: str) -> None:
    """Drop the table in three commits. If the job is killed in between, the row remains for the next job."""
    registered = search_tables.c.name == name

    def mark(connection: Connection) -> bool:
        if _locked_state(connection, name) is None or current_table(connection) == name:
            return False
        connection.execute(update(search_tables).where(registered).values(state=DROPPING))
        return True

    if job.write(mark):
        job.write(lambda connection: connection.execute(text(f"DROP TABLE IF EXISTS {checked(name)}")))
        job.write(lambda connection: connection.execute(delete(search_tables).where(registered)))


def _state(name: str) -> Select[str]:
    return select(search_tables.c.state).where(search_tables.c.name == name)


def _locked_state(connection: Connection, name: str) -> str | None:
    return connection.scalar(_state(name).with_for_update())
