"""The database of a test: open or empty it, read its jobs, assert what was enqueued."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn, Unpack, cast

from mayfly import json_text
from mayfly.client import App, current_app, load_registry, use_app
from mayfly.clock import Clock, host_clock, pin_offset
from mayfly.db.connection import AnyConnection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import BadTestDatabase, ConnectionElsewhere, NeedsTestDatabase
from mayfly.queue.insert import NewJob
from mayfly.queue.options import JobOptions, JobValidator
from mayfly.registry import Handler, Registry, declared, forget_local
from mayfly.schema.metadata import locks, metadata
from mayfly.schema.migrations import migrate
from mayfly.schema.tables import PENDING
from mayfly.settings import Settings
from mayfly.settings.values import DATABASE_RULE, Secret, database_url, mask_password

MAX_LISTED = 20  # jobs in a message
MAX_PAYLOAD_SHOWN = 200  # characters
TABLES = [each.name for each in metadata.sorted_tables if each is not locks]  # the migration inserts the locks


@dataclass(frozen=True, kw_only=True)
class EnqueuedJob:
    """A row of `mayfly_jobs`: an enqueued job in its current state."""

    id: int = 0  # 0: it has no row yet
    type: str
    payload: dict[str, Any]
    lane: str
    status: str = PENDING
    priority: int
    run_at: datetime
    attempts: int = 0
    max_attempts: int
    unique_key: str | None
    group_key: str | None
    result: Any = None
    last_error: str | None = None


COLUMNS = tuple(each.name for each in fields(EnqueuedJob))
ALL_JOBS = f"SELECT {', '.join(COLUMNS)} FROM mayfly_jobs ORDER BY id"


def enqueued_jobs(type: str | None = None) -> list[EnqueuedJob]:
    """All jobs enqueued in this test, in any state, the oldest first."""
    rows = inline_app().database.read(lambda connection: connection.execute(ALL_JOBS).all())
    jobs = [_enqueued(**dict(zip(COLUMNS, row, strict=True))) for row in rows]
    return [job for job in jobs if type in (None, job.type)]


def _enqueued(payload: str, run_at: Any, result: str | None, **columns: Any) -> EnqueuedJob:
    decoded = None if result is None else json_text.decode(result)
    return EnqueuedJob(payload=json_text.decode(payload), run_at=utc_from_driver(run_at), result=decoded, **columns)


@dataclass(frozen=True)
class FreshDatabase:
    """The value of the fixture `mayfly_db`: a database with Mayfly's tables and no jobs."""

    url: str


@contextmanager
def using_database(url: str) -> Iterator[FreshDatabase]:
    """Inside the block, enqueue, drain and the assertions of this process use that database, which has the tables.

    Python's clock is used, so that freezegun can stop it. At the end, handlers declared inside a test are removed.
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
    """A SQLite file to copy: migrating one takes as long as a hundred tests."""
    url = f"sqlite:///{path}"
    migrate(url)
    database = Database(url)
    database.connect()  # the first connection enables WAL mode, which is copied with the file
    database.close()


def prepare_named(url: str, worker: str | None) -> str:
    """Once per session: migrate the database of this process; returns its URL. `worker` is pytest-xdist's name."""
    own = _read_url(url.replace("{worker}", worker or "main"))
    name = own.partition("?")[0].rpartition("/")[2]
    if "test" not in name.lower():
        reason = "and its tables are emptied before each test: use a separate one, such as shop_test"
        raise BadTestDatabase(f"{mask_password(own)} has no `test` in its name, {reason}")
    if worker is not None and "{worker}" not in url:
        reason = "(pytest -n), which empty it: write {worker} into its name, as in shop_test_{worker}, for gw0, gw1 …"
        raise BadTestDatabase(f"{mask_password(own)} would be shared by several processes {reason}")
    migrate(own)
    return own


def prepare(url: str | None, worker: str | None, directory: Path) -> Callable[[Path], str]:
    """Once per session: returns a function that prepares the database of one test and returns its URL."""
    if url is None:
        template = directory / "template.db"
        make_template(template)
        return lambda directory: f"sqlite:///{shutil.copyfile(template, directory / 'mayfly.db')}"
    own = prepare_named(url, worker)

    def emptied(_test_directory: Path) -> str:
        """Before each test, not after it: the rows of a failed test can be inspected. Faster than TRUNCATE."""
        database = Database(own)
        database.run(lambda connection: [connection.execute(f"DELETE FROM {table}") for table in TABLES])
        database.close()
        return own

    return emptied


def _read_url(url: str) -> str:
    """Parsed like DATABASE_URL."""
    try:
        return database_url(url, current_app().settings.home)
    except ValueError as error:
        raise BadTestDatabase(str(error) or f"must be {DATABASE_RULE}") from None


@contextmanager
def pinned_offset(offset: timedelta = timedelta(0)) -> Iterator[None]:
    """Pin the clock offset of this process for every database: `now` is Python's clock plus `offset`.

    freezegun stops only Python's clock, and an offset measured against a stopped clock would undo that. Defaults of
    the database (created_at, an omitted run_at) are still its own time, and guards and timeouts still use the real
    monotonic clock.
    """
    before = pin_offset(offset)
    try:
        yield
    finally:
        pin_offset(before)


class InlineApp(App):
    """Uses the test's own database, and all handlers declared so far, including those of the test."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.validator = _StampingValidator.from_settings(settings, self.now)
        self._loaded: Registry | None = None
        self._location: str | None = None

    def open_connection(self, given: Any) -> AnyConnection:
        """Refuses one to another database, such as the application's own: jobs there are not the test's."""
        connection, own = super().open_connection(given), self.database
        if self._location is None:
            self._location = own.read(_location)
        if connection.dialect is not own.dialect or _location(connection) != self._location:
            raise ConnectionElsewhere(own.name)
        return connection

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    @property
    def registry(self) -> Registry:
        self._loaded = self._loaded or load_registry(self.settings)
        return replace(self._loaded, handlers={**self._loaded.handlers, **declared()})


def _location(connection: AnyConnection) -> str:
    return str(connection.execute(connection.dialect.location).scalar())


class AppWithoutDatabase(InlineApp):
    """For handlers that need no database: a test must not use the database of the settings."""

    @property
    def database(self) -> Database:
        return cast(Database, _NoDatabase())


class _NoDatabase:
    @property
    def clock(self) -> Clock:
        return host_clock()

    def __getattr__(self, _name: str) -> NoReturn:
        raise NeedsTestDatabase


class _StampingValidator(JobValidator):
    """Sets a missing run_at from Python's clock: the database would use its own, which cannot be frozen."""

    def validate(
        self, type_name: str, payload: object, handler: Handler | None = None, **options: Unpack[JobOptions]
    ) -> NewJob:
        if options.get("run_at") is None and options.get("delay") is None:
            options["run_at"] = self.now()
        return super().validate(type_name, payload, handler, **options)


def inline_app() -> InlineApp:
    """Refused without a test database, so that no real job is run or read by accident."""
    app = current_app()
    if not isinstance(app, InlineApp):
        raise NeedsTestDatabase
    return app


@contextmanager
def any_inline_app() -> Iterator[InlineApp]:
    """The app of this test, or one without a database."""
    before = current_app()
    app = before if isinstance(before, InlineApp) else AppWithoutDatabase(before.settings)
    use_app(app)
    try:
        yield app
    finally:
        use_app(before)


# --- assertions --------------------------------------------------------------------------------------------


def assert_enqueued(
    type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    count: int | None = None,
    lane: str | None = None,
    status: str | None = None,
    priority: int | None = None,
    run_at: datetime | None = None,
    unique_key: str | None = None,
    group_key: str | None = None,
) -> list[EnqueuedJob]:
    """Assert that jobs of this type, with at least these payload fields, were enqueued; returns them.

    One or more are expected, or exactly `count`, which may be 0. Jobs that were drained in the meantime count too,
    unless `status="pending"` is given.
    """
    __tracebackhide__ = True
    columns = {"lane": lane, "status": status, "priority": priority, "run_at": run_at, "unique_key": unique_key,
               "group_key": group_key}  # fmt: skip
    given = {name: value for name, value in columns.items() if value is not None}
    enqueued = enqueued_jobs()
    wanted = {"type": type, "payload": payload or {}, **given}
    found = [each for each in enqueued if contains(vars(each), wanted)]
    if len(found) == count or (count is None and found):
        return found
    raise AssertionError(_message(_wanted(type, payload, given), count, len(found), enqueued))


def contains(actual: object, expected: object) -> bool:
    """Objects must have at least the expected fields, recursively; other values must be equal."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return all(name in actual and contains(actual[name], value) for name, value in expected.items())
    if isinstance(expected, list | tuple) and isinstance(actual, list):
        pairs = zip(actual, expected, strict=False)
        return len(actual) == len(expected) and all(contains(each, value) for each, value in pairs)
    return bool(actual == expected)


def _wanted(type: str, payload: Mapping[str, Any] | None, columns: Mapping[str, Any]) -> str:
    conditions = [f"payload {_shown(payload)}"] if payload else []
    conditions += [f"{name}={value}" for name, value in columns.items()]
    return f"of type {type!r}" + (f" with {' and '.join(conditions)}" if conditions else "")


def _message(wanted: str, count: int | None, found: int, enqueued: Sequence[EnqueuedJob]) -> str:
    many = {0: "No job {} was", 1: "One job {} was"}.get(found, f"{found} jobs {{}} were").format(wanted)
    instead = "" if count is None else f", not {count}"
    return f"{many} enqueued{instead}.\n{_listed(enqueued)}"


def _listed(enqueued: Sequence[EnqueuedJob]) -> str:
    if not enqueued:
        return "No jobs were enqueued."
    lines = ["Enqueued jobs:", *(f"  {_line(each)}" for each in enqueued[:MAX_LISTED])]
    if len(enqueued) > MAX_LISTED:
        lines.append(f"  and {len(enqueued) - MAX_LISTED} more")
    return "\n".join(lines)


def _line(job: EnqueuedJob) -> str:
    keys = "".join(f" {name}={getattr(job, name)}" for name in ("unique_key", "group_key") if getattr(job, name))
    return f"{job.id} {job.type} {_shown(job.payload)} lane={job.lane}{keys} {job.status}, due {job.run_at:%F %T}"


def _shown(payload: Mapping[str, Any]) -> str:
    try:
        text = json_text.encode(dict(payload))
    except (TypeError, ValueError):  # a matcher, such as unittest.mock.ANY
        text = repr(payload)
    return text if len(text) <= MAX_PAYLOAD_SHOWN else f"{text[:MAX_PAYLOAD_SHOWN]}…"
