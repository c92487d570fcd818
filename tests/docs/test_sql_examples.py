"""docs/reference/python.md is correct: its SQL runs on the database it is for, and its Python runs unchanged."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import mayfly
from mayfly.cli.enqueue import enqueue as command
from mayfly.client import App, use_app
from mayfly.db.database import Database
from mayfly.errors import CommitUnknown, HandlerNotImported, KeyHeld
from mayfly.queue.options import EnqueueOptions
from mayfly.schema.metadata import jobs
from mayfly.settings import load_settings
from tests.docs.consoles import page_named, section_named
from tests.sqlalchemy_engines import run

ROOT = Path(__file__).parents[2]
PAGE = section_named("reference/python.md", "Enqueue")

HEADINGS = {
    "sqlite": "SQLite",
    "mariadb": "MariaDB and MySQL",
    "mysql": "MariaDB and MySQL",
    "postgres": "PostgreSQL",
}
DRIVERS = {"sqlite": "sqlite3", "mariadb": "PyMySQL", "mysql": "PyMySQL", "postgres": "psycopg (3)"}


@pytest.fixture
def database(migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """As on the page: Mayfly's tables and those of an application in one database."""
    monkeypatch.setenv("DATABASE_URL", migrated_url)
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    app = App(load_settings())
    use_app(app)
    app.database.run(lambda connection: connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)"))
    yield app.database
    app.database.close()


def test_the_sql_enqueues_a_complete_job(database: Database, migrated_url: str, engine_name: str) -> None:
    """The application's row and the job are committed together; every column is as described."""
    run_script(migrated_url, sql_under(HEADINGS[engine_name]))

    assert orders(database) == [6]
    [row] = rows(database)
    assert (row.type, mayfly.Job(1, "", "", row.payload, 1, 1, 1).payload) == ("send_receipt", {"order": 6})
    assert (row.lane, row.priority, row.max_attempts) == ("mail", 0, 3)
    assert (row.unique_key, row.group_key, row.status) == ("receipt:6", "orders", "pending")
    wait = row.run_at - database.clock.now()
    assert timedelta(minutes=9) < wait <= timedelta(minutes=10)


def test_the_sql_skips_a_job_whose_key_is_held(database: Database, migrated_url: str, engine_name: str) -> None:
    """The transaction does not fail."""
    held = mayfly.enqueue("send_receipt", unique_key="receipt:6")

    run_script(migrated_url, sql_under(HEADINGS[engine_name]))

    assert (orders(database), [row.id for row in rows(database)]) == ([6], [held])


def test_the_shortest_sql_is_a_complete_job(database: Database, migrated_url: str) -> None:
    """On every database."""
    run_script(migrated_url, sql_under("Plain SQL"))

    [row] = rows(database)
    assert (row.type, row.payload, row.lane, row.status) == ("noop", "{}", "default", "pending")


def test_the_python_with_a_driver_commits_with_the_row(
    database: Database, migrated_url: str, engine_name: str
) -> None:
    """Unchanged, except the address it connects to."""
    example = python_after(f"\n{DRIVERS[engine_name]}")

    exec(example, driver_names(migrated_url))

    assert len(orders(database)) == 1
    assert [row.payload for row in rows(database)] == [f'{{"order":{orders(database)[0]}}}']


def test_the_python_with_sqlalchemy_commits_with_the_rows(database: Database, application: Engine) -> None:
    """A Connection and a Session."""
    exec(python_after("SQLAlchemy, a `Connection`"), names(engine=application, Session=Session, text=text))

    assert orders(database) == [1, 2]
    assert [row.payload for row in rows(database)] == ['{"order":1}', '{"order":2}']


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_the_python_with_an_async_session_commits_with_the_row(database: Database, migrated_url: str) -> None:
    """It runs on an event loop."""
    engine = create_async_engine(migrated_url.replace("sqlite:", "sqlite+aiosqlite:"), poolclass=NullPool)
    given = names(engine=engine, AsyncSession=AsyncSession, text=text)

    exec(python_after("\nSQLAlchemy's `AsyncSession`"), given)
    asyncio.run(given["place_order"]())

    assert (orders(database), [row.payload for row in rows(database)]) == ([7], ['{"order":7}'])


DJANGO = """
import django
import mayfly
from django.conf import settings
from tests.docs.consoles import page_named, section_named

settings.configure(DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": {path!r}}}}})
django.setup()
{example}
"""


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_the_python_with_django_commits_with_the_row(database: Database, migrated_url: str) -> None:
    """In a process of its own: Django's settings are those of a process."""
    script = DJANGO.format(path=make_url(migrated_url).database, example=python_after("\nDjango, on"))

    subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=ROOT, check=True)

    assert (orders(database), [row.payload for row in rows(database)]) == ([6], ['{"order":6}'])


def test_the_python_without_a_connection_runs(database: Database) -> None:
    """The first example, the newsletter, the unique key and expiry."""
    for heading in ("## From Python", "### Many at once", "## Uniqueness", "## Expiry"):
        exec(python_after(heading), names(readers=["a@example.com", "b@example.com"]))

    assert [row.type for row in rows(database)] == ["send_email"] * 4 + ["rebuild_index", "send_code"]


def test_the_debounce_is_one_job_with_the_last_text(database: Database) -> None:
    """It is due half a minute after the last edit; an edit after its claim is another job."""
    given = names()
    exec(python_after("### Debounce"), given)
    [row] = rows(database)
    assert mayfly.Job(1, "", "", row.payload, 1, 1, 1).payload == {"product": 42, "text": "edit 9"}
    assert timedelta(seconds=20) < row.run_at - database.clock.now() <= timedelta(seconds=30)

    database.run(lambda connection: connection.execute("UPDATE mayfly_jobs SET status = 'processing', claims = 1"))
    given["on_edit"](42, "late")

    assert [row.status for row in rows(database)] == ["processing", "pending"]


def test_the_table_has_every_argument_and_no_other() -> None:
    """In the order of the definition."""
    section = PAGE.split("## From Python")[1].split("###")[0]
    named = re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)

    assert named == ["type", "payload", *EnqueueOptions.__annotations__, "connection"]


def test_every_option_of_the_command_is_documented() -> None:
    """In the generated page, to which this one links; here are only existing ones."""
    section = PAGE.split("## From the command line")[1].split("\n## ")[0]
    linked = page_named("reference/cli.md").split("\n## mayfly enqueue\n")[1].split("\n## ")[0]
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}

    assert set(re.findall(r"--[a-z-]+", section)) <= options
    assert set(re.findall(r"^\| `(--[a-z-]+)", linked, re.MULTILINE)) == options
    assert "(cli.md#mayfly-enqueue)" in section


def test_the_error_that_the_page_names_exists() -> None:
    """It can be imported by that name."""
    assert f"`{CommitUnknown.__module__}.{CommitUnknown.__name__}` is raised" in PAGE
    assert f"`{HandlerNotImported.__module__}.{HandlerNotImported.__name__}`, which names the module" in PAGE
    assert f"raises `{KeyHeld.__module__}.{KeyHeld.__name__}`" in PAGE


# --- the page ---------------------------------------------------------------------------------------------


def sql_under(heading: str) -> str:
    return block_after("sql", f"# {heading}\n")


def python_after(words: str) -> str:
    return block_after("python", words)


def block_after(language: str, words: str) -> str:
    found = re.search(rf"```{language}\n(.+?)```", PAGE.split(words, 1)[1], flags=re.DOTALL)
    assert found is not None
    return found[1]


# --- the database -----------------------------------------------------------------------------------------


@pytest.fixture
def application(migrated_url: str) -> Engine:
    return create_engine(migrated_url, poolclass=NullPool)


def run_script(url: str, script: str) -> None:
    """Statement by statement, in one session."""
    with create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
        for statement in script.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def names(**given: Any) -> dict[str, Any]:
    return {"mayfly": mayfly, **given}


def driver_names(url: str) -> dict[str, Any]:
    """The driver by its name in the example; it connects to the database of this test with any arguments."""
    parsed = make_url(url)
    conninfo = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    return names(
        pymysql=Connecting(pymysql, parsed.translate_connect_args(username="user")),
        psycopg=psycopg,
        conninfo=conninfo,
        sqlite3=sqlite3,
        path=parsed.database,
        password=parsed.password,
    )


class Connecting:
    """The driver, with our own address."""

    def __init__(self, driver: Any, address: dict[str, Any]) -> None:
        self._driver = driver
        self._address = address

    def connect(self, **_: Any) -> Any:
        return self._driver.connect(**self._address)


def rows(database: Database) -> list[Any]:
    return list(run(database, lambda connection: connection.execute(jobs.select().order_by(jobs.c.id)).all()))


def orders(database: Database) -> list[int]:
    found = text("SELECT id FROM orders ORDER BY id")
    return list(run(database, lambda connection: connection.execute(found).scalars().all()))
