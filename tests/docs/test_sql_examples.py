"""docs/reference/python.md is correct: its SQL runs on the database it is for, and its Python runs unchanged."""

import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
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

PAGE = section_named("reference/python.md", "Enqueue")

HEADINGS = {
    "sqlite": "SQLite",
    "mariadb": "MariaDB and MySQL",
    "mysql": "MariaDB and MySQL",
    "postgres": "PostgreSQL",
}


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


def test_the_python_with_sqlalchemy_commits_with_the_rows(database: Database, application: Engine) -> None:
    """A Connection and a Session."""
    exec(python_after("## In your own transaction"), names(engine=application, Session=Session, text=text))

    assert orders(database) == [1, 2]
    assert [row.payload for row in rows(database)] == ['{"order":1}', '{"order":2}']


def test_the_python_without_a_connection_runs(database: Database) -> None:
    """The first example, the newsletter, the unique key and expiry."""
    for heading in ("## From Python", "### Many at once", "## Uniqueness", "## Expiry"):
        exec(python_after(heading), names(readers=["a@example.com", "b@example.com"]))

    assert [row.type for row in rows(database)] == ["send_email"] * 4 + ["rebuild_index", "send_code"]


def test_the_debounce_is_one_job_with_the_last_text(database: Database) -> None:
    """It is due half a minute after the last edit; an edit after its claim is another job."""
    given = names()
    exec(python_after("### Debounce"), given)
    for number in range(10):
        given["on_edit"](42, f"edit {number}")
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


def rows(database: Database) -> list[Any]:
    return list(run(database, lambda connection: connection.execute(jobs.select().order_by(jobs.c.id)).all()))


def orders(database: Database) -> list[int]:
    found = text("SELECT id FROM orders ORDER BY id")
    return list(run(database, lambda connection: connection.execute(found).scalars().all()))
