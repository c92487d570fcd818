"""The jobs in a test's database, as values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from mayfly import jsontext
from mayfly.clock import host_clock
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.chains import NewChain
from mayfly.jobs.enqueue import NewJob
from mayfly.jobs.held import Held
from mayfly.schema import JOBS
from mayfly.testing.apps import inline_app

TABLES = ("mayfly_jobs", "mayfly_attempts", "mayfly_runners", "mayfly_cycles", "mayfly_totals", "mayfly_lanes",
          "mayfly_schedules", "mayfly_batches", "mayfly_chains")  # fmt: skip


@dataclass(frozen=True)
class EnqueuedJob:
    """A row of `mayfly_jobs`: what was enqueued, and what has become of it by now."""

    id: int
    type: str
    payload: dict[str, Any]
    lane: str
    status: str
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    unique_key: str | None
    group_key: str | None
    result: Any
    last_error: str | None


COLUMNS = tuple(each.name for each in fields(EnqueuedJob))
ALL_JOBS = f"SELECT {', '.join(COLUMNS)} FROM mayfly_jobs ORDER BY id"


def enqueued_jobs(type: str | None = None) -> list[EnqueuedJob]:
    """All that was enqueued in this test, whatever has become of it, the oldest first."""
    rows = inline_app().database.read(lambda connection: connection.execute(ALL_JOBS).all())
    jobs = [_enqueued(dict(zip(COLUMNS, row, strict=True))) for row in rows]
    return [job for job in jobs if type in (None, job.type)]


def _enqueued(row: dict[str, Any]) -> EnqueuedJob:
    result = None if row["result"] is None else jsontext.decode(row["result"])
    read = {"payload": jsontext.decode(row["payload"]), "result": result, "run_at": utc_from_driver(row["run_at"])}
    return EnqueuedJob(**{**row, **read})


def would_be_enqueued(held: Iterable[Held]) -> tuple[EnqueuedJob, ...]:
    """What has no row yet, or none that is known: as it would be, with the id 0."""
    firsts = (each.first if isinstance(each, NewChain) else each for each in held)
    return tuple(
        EnqueuedJob(
            id=0,
            type=each.type,
            payload=jsontext.decode(each.payload),
            lane=each.lane,
            status=JOBS.pending,
            priority=each.priority,
            run_at=each.run_at or host_clock().now(),
            attempts=0,
            max_attempts=each.max_attempts,
            unique_key=each.unique_key,
            group_key=each.group_key,
            result=None,
            last_error=None,
        )
        for each in firsts
        if isinstance(each, NewJob)
    )


def next_run_at(connection: Connection, lanes: Sequence[str]) -> datetime | None:
    """When the next job of these lanes is due."""
    names = {f"lane_{number}": lane for number, lane in enumerate(lanes)}
    listed = ", ".join(f":{name}" for name in names)
    waiting = f"SELECT MIN(run_at) FROM mayfly_jobs WHERE status = 'pending' AND lane IN ({listed})"
    found = connection.execute(waiting, names).scalar()
    return None if found is None else utc_from_driver(found)


def empty_tables(connection: Connection) -> None:
    """All but the lock, whose one row belongs to the schema. Faster than TRUNCATE, which makes each table anew."""
    for table in TABLES:
        connection.execute(f"DELETE FROM {table}")
