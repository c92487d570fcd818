"""Claims, settlers, runners and sessions for the tests of the database suite."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, TypeVar, cast

import pytest
from sqlalchemy import Row, Table, insert, select, text, update

from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment, add_planned
from mayfly.job import Job
from mayfly.log import Log, silent_log
from mayfly.process.identity import Host, Process, this_host, this_process
from mayfly.process.status_page import StatusPage
from mayfly.queue.claim import Claimant, Claimed, claim, jobs_from
from mayfly.queue.count import ClaimCursor, due_jobs
from mayfly.queue.outcome import Settler
from mayfly.schema import metadata as tables
from mayfly.settings import Settings, load
from runner.batch import PauseCache
from runner.claims import Claims
from runner.guard import Guard
from runner.job_runtime import HandlerRuntime
from runner.settle_buffer import SettleBuffer
from tests.servers import engine_names
from tests.sqlalchemy_engines import run

T = TypeVar("T")

CYCLE = 1_777_896_000_000

servers_only = pytest.mark.parametrize(
    "engine_name", [name for name in engine_names(os.environ) if name != "sqlite"], indirect=True
)
mysql_only = pytest.mark.parametrize(
    "engine_name", [name for name in engine_names(os.environ) if name in ("mariadb", "mysql")], indirect=True
)
sqlite_only = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def make_claimant(database: Database, worker_id: str = "worker-1", **changes: Any) -> Claimant:
    fields: dict[str, Any] = {"lane": "default", "lease_until": database.clock.now() + timedelta(minutes=1)} | changes
    return Claimant(worker_id, **fields)


def claim_jobs(database: Database, size: int = 5, worker_id: str = "worker-1", **changes: Any) -> list[Job]:
    """The jobs that a runner claims now."""
    claimant = make_claimant(database, worker_id, **changes)
    return jobs_from(make_claim(database, claimant, size), claimant.lane)


def make_claim(database: Database, claimant: Claimant, size: int = 5, cursor: ClaimCursor | None = None) -> Claimed:
    now = database.clock.now()
    due = database.read(lambda connection: due_jobs(connection, claimant.lane, now, cursor))
    return database.run(lambda connection: claim(connection, claimant, size, now, due.first_at))


def claim_ids(database: Database, size: int = 5, **changes: Any) -> list[int]:
    return [job.id for job in claim_jobs(database, size, **changes)]


def make_settler(worker_id: str = "worker-1", cycle_id: int = CYCLE) -> Settler:
    return Settler(worker_id, cycle_id, totals_key=worker_id)


def make_claims(database: Database, pauses: PauseCache | None = None, **options: Any) -> Claims:
    """Those of a runner that was just planned."""
    insert_runner(database)
    lease_until = database.clock.now() + timedelta(hours=1)
    assignment = Assignment("worker-1", "default", CYCLE, deadline=0, window_seconds=50, lease_until=lease_until)
    return Claims(
        database, make_buffer(database), assignment, 5, pauses or PauseCache("default", database), **options
    )


def make_buffer(database: Database, log: Log | None = None, page: StatusPage | None = None) -> SettleBuffer:
    return SettleBuffer(database, make_settler(), page or make_page(), log or silent_log())


def make_page() -> StatusPage:
    with NamedTemporaryFile() as file:
        return StatusPage(Path(file.name))


def make_runtime(database: Database, worker_id: str = "worker-1") -> HandlerRuntime:
    """For a handler that does not check its remaining time."""
    return HandlerRuntime(database, worker_id, cast(Guard, None))


def insert_runner(
    database: Database,
    worker_id: str = "worker-1",
    lane: str = "default",
    *,
    place: Host | None = None,
    process: Process | None = None,
    lease_seconds: float = 60,
) -> None:
    """A runner without an end: on this host and alive by default."""
    now = database.clock.now()
    lease_until = now + timedelta(seconds=lease_seconds)
    assignment = Assignment(worker_id, lane, CYCLE, deadline=0, window_seconds=50, lease_until=lease_until)
    host, owner = place or this_host("here"), process or this_process()
    database.run(lambda connection: add_planned(connection, [assignment], host, owner, now))


def insert_table_row(database: Database, table: Table, **columns: Any) -> None:
    run(database, lambda connection: connection.execute(insert(table), [columns]))


def change_job(database: Database, job_id: int | None, **columns: Any) -> None:
    """As an operator changes a row by SQL."""
    statement = update(tables.jobs).where(tables.jobs.c.id == job_id).values(**columns)
    run(database, lambda connection: connection.execute(statement))


def rows_of(database: Database, table: Table) -> Sequence[Row[Any]]:
    ordered = select(table).order_by(*table.primary_key.columns)
    return run(database, lambda connection: connection.execute(ordered).all())


def run_sql(database: Database, statement: str, **parameters: Any) -> None:
    run(database, lambda connection: connection.execute(text(statement), parameters))


def in_threads(works: Sequence[Callable[[], T]]) -> list[T]:
    """Concurrently; the first error is raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        return [each.result() for each in [pool.submit(work) for work in works]]


def retention(**days: float) -> Settings:
    """The default settings, with other retentions in days: retention(dead=30)."""
    return load({}).settings.replace(**{f"keep_{name}_days": number for name, number in days.items()})
