"""What is wrong with a database is said in a sentence that tells what to do, and never with the password."""

import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.db.dialects import base
from mayfly.errors import (
    BadDatabaseOption,
    DatabaseAway,
    DatabaseError,
    DatabaseRefused,
    DatabaseUnopenable,
    SchemaMismatch,
    SchemaMissing,
)
from mayfly.schema.migrations import migrate
from mayfly.schema.tables import require_version
from tests.database.factories import run_sql, servers_only, sqlite_only

SECRET = "correct-horse"


@servers_only
def test_a_wrong_password_is_refused_and_not_shown(migrated_url: str) -> None:
    """Neither the sentence nor anything that led to it has it."""
    wrong = make_url(migrated_url).set(password=SECRET)

    error = failure_of(wrong.render_as_string(hide_password=False))

    assert isinstance(error, DatabaseRefused)
    assert "Check user, password, database name" in str(error)
    assert "mayfly:***@" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))


@servers_only
def test_an_unknown_user_is_refused(migrated_url: str) -> None:
    """The same sentence: which of the two is wrong is nobody's business."""
    wrong = make_url(migrated_url).set(username="nobody", password=SECRET)

    error = failure_of(wrong.render_as_string(hide_password=False))

    assert isinstance(error, DatabaseRefused)
    assert SECRET not in "".join(traceback.format_exception(error))


@servers_only
def test_an_unknown_database_is_refused(migrated_url: str) -> None:
    """With its name."""
    wrong = make_url(migrated_url).set(database="no_such_database")

    error = failure_of(wrong.render_as_string(hide_password=False))

    assert isinstance(error, DatabaseRefused)
    assert "no_such_database" in str(error)


@servers_only
def test_a_server_that_is_not_there_is_away(migrated_url: str) -> None:
    """Nobody listens on that port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    wrong = make_url(migrated_url).set(port=port, password=SECRET)

    error = failure_of(wrong.render_as_string(hide_password=False))

    assert isinstance(error, DatabaseAway)
    assert "Check that the server runs and that DATABASE_URL is right" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))


@servers_only
def test_a_server_that_does_not_answer_is_away(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that a statement has, and it is not asked again."""
    monkeypatch.setattr(base, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = make_url(migrated_url).set(port=listener.getsockname()[1])
        started = monotonic()

        error = failure_of(silent.render_as_string(hide_password=False))

        waited, calls = monotonic() - started, calls_at(listener)
    assert isinstance(error, DatabaseAway)
    assert (calls, waited < 60) == (1, True)


@servers_only
@pytest.mark.parametrize("opening", [Database, migrate], ids=["work", "migrate"])
def test_an_option_that_the_driver_does_not_know_is_told(migrated_url: str, opening: Callable[[str], Any]) -> None:
    """Whoever opens the database: it is a word in DATABASE_URL, and no mistake of ours."""
    wrong = f"{migrated_url}?read_timeuot=3"

    with pytest.raises(BadDatabaseOption, match="read_timeuot"):
        opening(wrong).read(require_version)


@sqlite_only
def test_an_option_that_the_driver_knows_is_taken(migrated_url: str) -> None:
    """Except where we know better."""
    database = Database(f"{migrated_url}?cached_statements=5&timeout=1&check_same_thread=true")

    assert database.read(lambda connection: connection.execute("PRAGMA busy_timeout").scalar()) == 10_000
    database.close()


@pytest.mark.parametrize(
    "content",
    [None, b"this is no database at all, but long enough to have been one" * 100],
    ids=["nowhere", "no file"],
)
def test_a_file_that_is_no_database_cannot_be_opened(tmp_path: Path, content: bytes | None) -> None:
    """Or that is not there, in a directory that is not there either."""
    path = tmp_path / "nowhere" / "mayfly.db"
    if content is not None:
        path.parent.mkdir()
        path.write_bytes(content)

    error = failure_of(f"sqlite:///{path}")

    assert isinstance(error, DatabaseUnopenable)
    assert str(path) in str(error)


def test_a_database_without_tables_says_what_to_run(database_url: str) -> None:
    """A server's database never gets them by itself."""
    error = failure_of(database_url)

    assert isinstance(error, SchemaMissing)
    assert "Run `mayfly migrate`" in str(error)


def test_work_without_tables_says_the_same(database_url: str) -> None:
    """Whoever did not ask for the version first learns it from the first statement."""
    database = Database(database_url)

    with pytest.raises(SchemaMissing):
        database.run(lambda c: c.execute("INSERT INTO mayfly_jobs (type, payload) VALUES ('noop', '{}')"))

    database.close()


def test_a_migration_that_was_killed_looks_like_none(database_url: str) -> None:
    """A table of versions without a version: the rest may be there or not."""
    migrate(database_url)
    database = Database(database_url)
    run_sql(database, "DELETE FROM mayfly_version")
    database.close()

    assert isinstance(failure_of(database_url), SchemaMissing)


@pytest.mark.parametrize(
    ("version", "kind", "advice"),
    [("0000", SchemaMismatch, "Run `mayfly migrate`"), ("9999", SchemaMismatch, "Upgrade Mayfly on this host")],
)
def test_another_version_of_the_schema_is_refused(
    database: Database, migrated_url: str, version: str, kind: type[DatabaseError], advice: str
) -> None:
    """Both versions are named, and who has to move."""
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{version}'")

    error = failure_of(migrated_url)

    assert isinstance(error, kind)
    assert version in str(error)
    assert advice in str(error)


def failure_of(url: str) -> BaseException:
    """What the first look of a cycle says of it."""
    database = Database(url)
    try:
        with pytest.raises(DatabaseError) as caught:
            database.read(require_version)
    finally:
        database.close()
    return caught.value


def calls_at(listener: socket.socket) -> int:
    """The number of connection attempts that got no answer."""
    listener.setblocking(False)
    calls = 0
    with suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            calls += 1
    return calls
