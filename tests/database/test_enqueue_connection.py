"""`connection=`: the job is part of the application's own transaction; Mayfly commits nothing."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, make_url
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.pool import NullPool

import mayfly
from mayfly import json_text
from mayfly.db.database import Database
from mayfly.errors import BadField, ConnectionElsewhere, NeedsTestDatabase, SchemaMismatch
from mayfly.schema.metadata import jobs
from mayfly.schema.migrations import migrate
from mayfly.schema.tables import VERSION
from mayfly.testing import assert_enqueued, run_inline, using_database
from tests.database.application_connections import (
    Application,
    Kind,
    as_connection,
    as_mariadb,
    every_kind,
    opened,
)
from tests.database.factories import change_job, mysql_only, rows_of, run_sql, servers_only, sqlite_only
from tests.databases import Databases
from tests.factories import get_row

pytestmark = pytest.mark.usefixtures("app")

ORDER = "INSERT INTO orders (id) VALUES (1)"


@pytest.fixture
def client(kind: Kind, migrated_url: str, database: Database) -> Iterator[Application]:
    """An application with its own table."""
    run_sql(database, "CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    with opened(kind, migrated_url) as application:
        yield application


@every_kind
def test_the_job_commits_with_the_applications_row(client: Application, database: Database) -> None:
    """Both exist, and the id is that of the row."""
    client.run(ORDER)
    job = mayfly.enqueue("noop", {"order": 1}, connection=client.connection)
    client.commit()

    assert orders(database) == 1
    assert get_row(database, job).payload == '{"order":1}'


@every_kind
def test_the_job_rolls_back_with_the_applications_row(client: Application, database: Database) -> None:
    """Neither exists."""
    client.run(ORDER)
    mayfly.enqueue("noop", connection=client.connection)
    mayfly.enqueue_many([{"type": "noop"}] * 3, connection=client.connection)
    client.rollback()

    assert (orders(database), rows_of(database, jobs)) == (0, [])


@every_kind
def test_the_job_is_invisible_before_the_application_commits(client: Application, database: Database) -> None:
    """Mayfly does not commit."""
    client.run(ORDER)
    mayfly.enqueue("noop", connection=client.connection)

    seen = database.read(lambda connection: connection.execute("SELECT id FROM mayfly_jobs").all())

    assert seen == []


@every_kind
@pytest.mark.parametrize("version", ["0000", "9999"])
def test_tables_of_another_version_are_refused_on_a_connection(
    client: Application, database: Database, version: str
) -> None:
    """Every time, until they are migrated; nothing is inserted."""
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{version}'")
    for _ in range(2):
        with pytest.raises(SchemaMismatch, match=version):
            mayfly.enqueue("noop", connection=client.connection)
        client.rollback()
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{VERSION}'")
    mayfly.enqueue("noop", connection=client.connection)
    client.commit()

    assert len(rows_of(database, jobs)) == 1


@every_kind
def test_many_jobs_commit_with_the_applications_row(client: Application, database: Database) -> None:
    """With and without keys, and in more than one statement."""
    client.run(ORDER)
    inserted = mayfly.enqueue_many(
        ({"type": "noop", "unique_key": None if number < 1200 else f"key-{number // 2}"} for number in range(1300)),
        connection=client.connection,
    )
    client.commit()

    assert inserted == len(rows_of(database, jobs)) == 1200 + 50
    assert orders(database) == 1


@every_kind
def test_a_held_key_returns_its_holder_in_the_applications_transaction(
    client: Application, database: Database
) -> None:
    """No error ends the transaction."""
    held = mayfly.enqueue("noop", unique_key="key")
    client.run(ORDER)
    job = mayfly.enqueue("noop", unique_key="key", connection=client.connection)
    client.commit()

    assert (job, orders(database), len(rows_of(database, jobs))) == (held, 1, 1)


@every_kind
def test_a_freed_key_is_taken(client: Application, database: Database) -> None:
    """The id of the finished job is not returned."""
    ended = mayfly.enqueue("noop", unique_key="key")
    change_job(database, ended, status="done")

    job = mayfly.enqueue("noop", unique_key="key", connection=client.connection)
    client.commit()

    assert job != ended
    assert get_row(database, job).status == "pending"


@every_kind
def test_run_at_and_delay_mean_the_same_on_a_connection(client: Application, database: Database) -> None:
    """The database's time in UTC, in any time zone of the application's session."""
    at = database.clock.now() + timedelta(days=1)
    fixed = mayfly.enqueue("noop", run_at=at, connection=client.connection)
    delayed = mayfly.enqueue("noop", delay=60, connection=client.connection)
    client.commit()

    assert get_row(database, fixed).run_at == at
    wait = get_row(database, delayed).run_at - database.clock.now()
    assert timedelta(seconds=30) < wait < timedelta(seconds=61)  # the two clocks were measured separately


@every_kind
def test_special_characters_are_unchanged(client: Application, database: Database) -> None:
    """Quotes, percent signs, backslashes, NUL and emoji are bound by the driver."""
    payload = {"text": "%s %(x)s '\"\\ :name ? \x00 \U0001f9a5"}

    job = mayfly.enqueue("noop", payload, unique_key="'%s'", connection=client.connection)
    client.commit()

    row = get_row(database, job)
    assert json_text.decode(row.payload) == payload
    assert row.unique_key == "'%s'"


@mysql_only
def test_a_mariadb_engine_is_a_mysql_engine(migrated_url: str, database: Database) -> None:
    """SQLAlchemy's dialect has another name if the URL has."""
    with opened(as_mariadb, migrated_url) as application:
        job = mayfly.enqueue("noop", {"a": 1}, delay=-1, unique_key="key", connection=application.connection)
        again = mayfly.enqueue("noop", unique_key="key", connection=application.connection)
        more = mayfly.enqueue_many(
            [{"type": "noop", "unique_key": key} for key in "aab"], connection=application.connection
        )
        application.commit()

    assert (again, more) == (job, 2)
    assert get_row(database, job).payload == '{"a":1}'


@mysql_only
def test_a_holder_newer_than_the_snapshot_is_found(migrated_url: str, database: Database) -> None:
    """In REPEATABLE READ, the default there, a plain query would never see it."""
    with opened(as_connection, migrated_url) as application:
        application.run("SELECT id FROM mayfly_jobs")  # the snapshot is taken
        held = mayfly.enqueue("noop", unique_key="key")

        job = mayfly.enqueue("noop", unique_key="key", connection=application.connection)

    assert job == held


# --- connections that cannot be used as they are ----------------------------------------------------------

ASYNC_DRIVERS = {"sqlite": "sqlite+aiosqlite", "mysql": "mysql+aiomysql", "postgresql": "postgresql+psycopg"}


@asynccontextmanager
async def async_engine(url: str) -> AsyncIterator[AsyncEngine]:
    parsed = make_url(url)
    engine = create_async_engine(parsed.set(drivername=ASYNC_DRIVERS[parsed.get_backend_name()]), poolclass=NullPool)
    yield engine
    await engine.dispose()


def test_an_async_session_enqueues_in_run_sync(migrated_url: str, database: Database) -> None:
    """In the transaction of the session."""

    async def place_orders() -> list[int | None]:
        async with async_engine(migrated_url) as engine, AsyncSession(engine) as session:
            kept = await session.run_sync(lambda sync: mayfly.enqueue("noop", {"a": 1}, delay=-1, connection=sync))
            await session.commit()
            await session.run_sync(lambda sync: mayfly.enqueue("noop", connection=sync))
            await session.rollback()
        async with async_engine(migrated_url) as engine, engine.begin() as connection:
            jobs_given = [{"type": "noop", "unique_key": key} for key in "aab"]
            more = await connection.run_sync(lambda sync: mayfly.enqueue_many(jobs_given, connection=sync))
        return [kept, more]

    kept, more = asyncio.run(place_orders())

    assert (get_row(database, kept).payload, more, len(rows_of(database, jobs))) == ('{"a":1}', 2, 3)


def test_async_connections_are_refused(migrated_url: str, database: Database) -> None:
    """Their statements are coroutines, which no code would await."""

    async def refusals() -> list[str]:
        async with async_engine(migrated_url) as engine, engine.connect() as connection:
            sessions = async_sessionmaker(connection)
            driver = (await connection.get_raw_connection()).driver_connection
            scoped = async_scoped_session(sessions, scopefunc=asyncio.current_task)
            return [refusal(each) for each in (sessions(), scoped, connection, driver)]

    found = asyncio.run(refusals())

    assert [each.partition(":")[0] for each in found[:3]] == [
        "connection='AsyncSession'",
        "connection='async_scoped_session'",
        "connection='AsyncConnection'",
    ]
    for each in found:
        assert "must be a connection that is not async: " in each
        assert "`await session.run_sync(lambda sync: enqueue(…, connection=sync))`" in each
    assert rows_of(database, jobs) == []


def refusal(connection: object) -> str:
    with pytest.raises(BadField) as caught:
        mayfly.enqueue("noop", connection=connection)
    return str(caught.value)


@sqlite_only
def test_a_connection_of_mysqlclient_is_refused() -> None:
    """By the name of its module: the package needs a compiler and is not installed here."""
    connection = type("Connection", (), {"__module__": "MySQLdb.connections"})()

    assert "must be a PyMySQL connection or a SQLAlchemy Connection; on one of mysqlclient" in refusal(connection)


@sqlite_only
def test_an_engine_is_refused(application: Engine) -> None:
    """It has no transaction that the job could be part of."""
    assert "must be a SQLAlchemy Connection or Session, Django's connection, or" in refusal(application)


# --- in a test of an application --------------------------------------------------------------------------


@every_kind
def test_a_test_refuses_a_connection_to_another_database(
    kind: Kind, engine_name: str, databases: Databases, migrated_url: str
) -> None:
    """A job in the application's own database could be run by cron. The error says what to do."""
    with (
        databases.fresh(engine_name, migrate) as other,
        using_database(migrated_url),
        opened(kind, other) as application,
    ):
        for enqueue in (
            partial(mayfly.enqueue, "noop"),
            partial(mayfly.enqueue_many, [{"type": "noop"}]),
            partial(mayfly.chain, "noop"),
        ):
            with pytest.raises(ConnectionElsewhere, match=r"Connect to mayfly_db\.url in the test"):
                enqueue(connection=application.connection)
        application.commit()

        assert rows_of(Database(other), jobs) == []


@every_kind
def test_a_test_accepts_a_connection_to_its_database(kind: Kind, migrated_url: str) -> None:
    """Whatever the settings of its session are."""
    with using_database(migrated_url), opened(kind, migrated_url) as application:
        mayfly.enqueue("noop", connection=application.connection)
        application.commit()

        assert_enqueued("noop", count=1)


@sqlite_only
def test_a_handler_that_is_run_inline_needs_a_test_database_to_enqueue(application: Engine) -> None:
    """Also on a connection of its own, which may be one to the application's database."""

    @mayfly.handler("place")
    def place(_job: mayfly.Job) -> None:
        with application.begin() as connection:
            mayfly.enqueue("noop", connection=connection)

    with pytest.raises(NeedsTestDatabase):
        run_inline(place)


@servers_only
def test_a_test_refuses_a_connection_to_another_kind_of_database(migrated_url: str, tmp_path: Path) -> None:
    """No statement is sent there."""
    with (
        using_database(migrated_url),
        closing(sqlite3.connect(tmp_path / "app.db")) as connection,
        pytest.raises(ConnectionElsewhere),
    ):
        mayfly.enqueue("noop", connection=connection)


def orders(database: Database) -> Any:
    return database.run(lambda connection: connection.execute("SELECT COUNT(*) FROM orders").scalar())
