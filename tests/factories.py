"""Rows and values for tests: `make_…` builds one, `insert_…` also inserts it into a database."""

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from mayfly.clock import Clock, host_now, since_boot
from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.schema.metadata import jobs
from tests.sqlalchemy_engines import run

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)

_ids = itertools.count(1)


def make_clock(offset: timedelta = timedelta(0)) -> Clock:
    """A database clock that is ahead of the host's by this offset."""
    return Clock(host_now() + offset, since_boot(), offset)


def make_job(**changes: Any) -> Job:
    """A claimed job as its handler gets it."""
    fields: dict[str, Any] = {
        "id": next(_ids),
        "type": "noop",
        "lane": "default",
        "payload_text": "{}",
        "attempt": 1,
        "max_attempts": 5,
        "claims": 1,
        "run_at": NOON,
    }
    return Job(**fields | changes)


def insert_rows(database: Database, count: int = 1, **columns: Any) -> list[int]:
    """Insert pending jobs, by default due a minute ago, and return their ids in order."""
    due = database.clock.now() - timedelta(minutes=1)
    row: Mapping[str, Any] = {"type": "noop", "payload": "{}", "run_at": due} | columns

    def write(connection: Connection) -> set[int]:
        before = set(connection.execute(select(jobs.c.id)).scalars())
        connection.execute(insert(jobs), [row] * count)
        return set(connection.execute(select(jobs.c.id)).scalars()) - before

    return sorted(run(database, write))


def insert_row(database: Database, **columns: Any) -> int:
    return insert_rows(database, 1, **columns)[0]


def get_row(database: Database, job_id: int | None) -> Row[Any]:
    return run(database, lambda connection: connection.execute(select(jobs).where(jobs.c.id == job_id)).one())
