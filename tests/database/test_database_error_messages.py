"""Database problems are reported with the remedy and without the password."""

import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from mayfly.clock import monotonic
from mayfly.db import dialects
from mayfly.db.database import Database
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
from tests.database.lossy_proxy import unanswered_connections

SECRET = "correct-horse"


@servers_only
def test_a_wrong_password_is_refused_and_not_shown(migrated_url: str) -> None:
    """Neither in the sentence nor in its causes."""
    wrong = make_url(migrated_url).set(password=SECRET)

    error = failure_of(wrong.render_as_string(hide_password=False))

    assert isinstance(error, DatabaseRefused)
    assert "Check user, password, database name" in str(error)
    assert "mayfly:***@" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))


@servers_only
def test_an_unknown_user_is_refused(migrated_url: str) -> None:
    """With the same sentence, which does not show whether the user or the password is wrong."""
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
def test_a_server_that_refuses_connections_is_unreachable(migrated_url: str) -> None:
    """No process listens on the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    wrong = make_url(migrated_url).set(port=port, password=SECRET)

    error = failure_of(wrong.render_as_string(hide_password=False))

    assert isinstance(error, DatabaseAway)
    assert "Check that the server runs and that DATABASE_URL is correct" in str(error)
    assert SECRET not in "".join(traceback.format_exception(error))


@servers_only
def test_a_server_that_does_not_answer_is_unreachable(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout of a statement, without a second attempt."""
    monkeypatch.setattr(dialects, "CONNECT_SECONDS", 2)
    monkeypatch.setattr(dialects, "STATEMENT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = make_url(migrated_url).set(port=listener.getsockname()[1])
        started = monotonic()

        error = failure_of(silent.render_as_string(hide_password=False))

        waited, calls = monotonic() - started, unanswered_connections(listener)
    assert isinstance(error, DatabaseAway)
    assert (calls, waited < 60) == (1, True)


@servers_only
@pytest.mark.parametrize("opening", [Database, migrate], ids=["work", "migrate"])
def test_an_option_unknown_to_the_driver_is_an_error_of_the_url(
    migrated_url: str, opening: Callable[[str], Any]
) -> None:
    """For every way to open the database: it is a mistake in DATABASE_URL, not a bug."""
    wrong = f"{migrated_url}?read_timeuot=3"

    with pytest.raises(BadDatabaseOption, match="read_timeuot"):
        opening(wrong).read(require_version)


@sqlite_only
def test_an_option_known_to_the_driver_is_used(migrated_url: str) -> None:
    """Except those that Mayfly sets itself."""
    database = Database(f"{migrated_url}?cached_statements=5&timeout=1&check_same_thread=true")

    assert database.read(lambda connection: connection.execute("PRAGMA busy_timeout").scalar()) == 10_000
    database.close()


@pytest.mark.parametrize(
    "content",
    [None, b"this is no database at all, but long enough to have been one" * 100],
    ids=["nowhere", "no file"],
)
def test_a_file_that_is_not_a_database_cannot_be_opened(tmp_path: Path, content: bytes | None) -> None:
    """Nor can one in a missing directory."""
    path = tmp_path / "nowhere" / "mayfly.db"
    if content is not None:
        path.parent.mkdir()
        path.write_bytes(content)

    error = failure_of(f"sqlite:///{path}")

    assert isinstance(error, DatabaseUnopenable)
    assert str(path) in str(error)


def test_a_database_without_tables_is_reported_with_the_command(database_url: str) -> None:
    """Tables on a server are never created automatically."""
    error = failure_of(database_url)

    assert isinstance(error, SchemaMissing)
    assert "Run `mayfly migrate`" in str(error)


def test_statements_without_tables_have_the_same_message(database_url: str) -> None:
    """If the version was not checked first."""
    database = Database(database_url)

    with pytest.raises(SchemaMissing):
        database.run(lambda c: c.execute("INSERT INTO mayfly_jobs (type, payload) VALUES ('noop', '{}')"))

    database.close()


def test_a_killed_migration_counts_as_none(database_url: str) -> None:
    """The version table has no version; the other tables may or may not exist."""
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
    """With both versions, and which of code and database must be updated."""
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{version}'")

    error = failure_of(migrated_url)

    assert isinstance(error, kind)
    assert version in str(error)
    assert advice in str(error)


def failure_of(url: str) -> BaseException:
    """The error of the first query of a cycle."""
    database = Database(url)
    try:
        with pytest.raises(DatabaseError) as caught:
            database.read(require_version)
    finally:
        database.close()
    return caught.value
