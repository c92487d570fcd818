"""The jobs in a test's database, as values."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Unpack

from mayfly import json_text
from mayfly.bootstrap import load_registry
from mayfly.client import App, current_app, use_app
from mayfly.clock import host_clock, pin_offset
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import BadTestDatabase, NeedsTestDatabase
from mayfly.queue.followups import BufferedJob, NewChain
from mayfly.queue.insert import NewJob
from mayfly.queue.options import JobOptions, JobValidator
from mayfly.registry import Handler, Registry, declared, forget_local
from mayfly.schema.tables import PENDING
from mayfly.settings import Settings
from mayfly.settings.values import DATABASE_RULE, Secret, database_url, mask_password

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
    result = None if row["result"] is None else json_text.decode(row["result"])
    read = {"payload": json_text.decode(row["payload"]), "result": result, "run_at": utc_from_driver(row["run_at"])}
    return EnqueuedJob(**{**row, **read})


def would_be_enqueued(held: Iterable[BufferedJob]) -> tuple[EnqueuedJob, ...]:
    """What has no row yet, or none that is known: as it would be, with the id 0."""
    firsts = (each.first if isinstance(each, NewChain) else each for each in held)
    return tuple(
        EnqueuedJob(
            id=0,
            type=each.type,
            payload=json_text.decode(each.payload),
            lane=each.lane,
            status=PENDING,
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


@dataclass(frozen=True)
class FreshDatabase:
    """What the fixture `mayfly_db` is: a database with Mayfly's tables, and no jobs in it yet."""

    url: str


@contextmanager
def using_database(url: str) -> Iterator[FreshDatabase]:
    """Until its end all that this process enqueues, drains and asserts is in that database, which has the tables.

    Python's clock rules, so that freezegun can stop it. Handlers that were declared inside of a test are forgotten.
    """
    before = current_app()
    full_url = _read_url(url)
    app = InlineApp(before.settings.replace(database_url=Secret(full_url)))
    use_app(app)
    try:
        with pinned_offset():
            yield FreshDatabase(full_url)
    finally:
        app.close()
        use_app(before)
        forget_local()


def make_template(path: Path) -> None:
    """A SQLite file to be copied: to migrate one takes as long as a hundred tests."""
    from mayfly.schema.migrations import migrate

    url = f"sqlite:///{path}"
    migrate(url)
    database = Database(url)
    database.read(lambda _connection: None)  # whoever connects first switches the WAL on; then it is copied too
    database.close()


def copy_template(template: Path, path: Path) -> str:
    shutil.copyfile(template, path)
    return f"sqlite:///{path}"


def prepare_named(url: str, worker: str | None) -> str:
    """Once a session: the URL for this process, migrated. `worker` is its name among those that share the tests."""
    own = _read_url(url.replace("{worker}", worker or "main"))
    name = own.partition("?")[0].rpartition("/")[2]
    if "test" not in name.lower():
        reason = "and its tables are emptied before each test: use one of its own, such as shop_test"
        raise BadTestDatabase(f"{mask_password(own)} has no `test` in its name, {reason}")
    if worker is not None and "{worker}" not in url:
        reason = "(pytest -n), which empty it: write {worker} into its name, as in shop_test_{worker}, for gw0, gw1 …"
        raise BadTestDatabase(f"{mask_password(own)} would be shared by several processes {reason}")
    from mayfly.schema.migrations import migrate

    migrate(own)
    return own


def _read_url(url: str) -> str:
    """As DATABASE_URL is read."""
    try:
        return database_url(url, current_app().settings.home)
    except ValueError as error:
        raise BadTestDatabase(str(error) or f"must be {DATABASE_RULE}") from None


def empty(url: str) -> None:
    """Before each test, not after it: what a test that failed has left can be looked at."""
    database = Database(url)
    database.run(empty_tables)
    database.close()


@contextmanager
def pinned_offset(offset: timedelta = timedelta(0)) -> Iterator[None]:
    """Pin this process's distance to every database, whenever that was opened: `now` is Python's clock plus offset.

    freezegun stops Python's clock only, and a distance measured against a stopped clock would undo the freezing.
    What the database fills in by itself (created_at, a run_at that was left out) is still its own time, and
    guards and time-outs still count on the real monotonic clock.

        with freeze_time("2026-05-04 12:00") as frozen, pinned_offset():
            frozen.tick(3600)
    """
    before = pin_offset(offset)
    try:
        yield
    finally:
        pin_offset(before)


class InlineApp(App):
    """On a database of the test's own, with every handler that was declared by now, those of the test included."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.validator = _StampingValidator.from_settings(settings, self.now)
        self._loaded: Registry | None = None

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def registry(self) -> Registry:
        self._loaded = self._loaded or load_registry(self.settings)
        return replace(self._loaded, handlers={**self._loaded.handlers, **declared()})


class AppWithoutDatabase(InlineApp):
    """For handlers that need none: what the settings name is for real jobs, and no test's."""

    @property
    def database(self) -> Database:
        raise NeedsTestDatabase

    def now(self) -> datetime:
        return host_clock().now()


class _StampingValidator(JobValidator):
    """Jobs are due by Python's clock: the database's own, which fills in a missing run_at, cannot be frozen."""

    def validate(
        self, type_name: str, payload: object, handler: Handler | None = None, **options: Unpack[JobOptions]
    ) -> NewJob:
        if options.get("run_at") is None and options.get("delay") is None:
            options["run_at"] = self.now()
        return super().validate(type_name, payload, handler, **options)


def inline_app() -> InlineApp:
    """Refused outside of a test's database: nobody's real jobs are run, or looked at, by accident."""
    app = current_app()
    if not isinstance(app, InlineApp):
        raise NeedsTestDatabase
    return app


@contextmanager
def any_inline_app() -> Iterator[InlineApp]:
    """The one of this test, or one that works as long as nobody asks for a database."""
    before = current_app()
    app = before if isinstance(before, InlineApp) else AppWithoutDatabase(before.settings)
    use_app(app)
    try:
        yield app
    finally:
        use_app(before)
