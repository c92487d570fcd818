"""Tables of handlers that are missing or old: what people meet says what to run."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from mayfly.cli.checks import CheckResult, CheckStatus, check_app_tables
from mayfly.db.database import Database
from mayfly.errors import TableMissing
from mayfly.schema.migrations.apps import app_tables, migrate_app


def test_a_table_that_handlers_bring_along_is_told_apart_from_ours(database_url: str) -> None:
    """By its name, whatever the database is called and however it says so."""
    database = Database(database_url)

    with pytest.raises(TableMissing) as raised:
        database.run(lambda connection: connection.execute("SELECT * FROM app_letters"))

    database.close()
    assert str(raised.value) == (
        "There is no table app_letters. If it belongs to handlers, run `mayfly migrate --app` once."
    )


def look(url: str) -> CheckResult:
    [found] = check_app_tables(url, ["handlers"])
    return found


def set_version(url: str, version: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE app_handlers_version SET version_num = :version"), {"version": version})


def test_doctor_looks_at_their_version(database_url: str) -> None:
    """Missing, as the code has it, behind, and ahead of it."""
    missing = look(database_url)
    [tables] = app_tables(["handlers"])
    migrate_app(database_url, tables)
    fine = look(database_url)
    set_version(database_url, "0001")
    behind = look(database_url)
    set_version(database_url, "9999")
    ahead = look(database_url)

    found = [missing, fine, behind, ahead]
    assert [each.health for each in found] == [
        CheckStatus.WARNING,
        CheckStatus.OK,
        CheckStatus.PROBLEM,
        CheckStatus.PROBLEM,
    ]
    assert missing.text == ("those of handlers are missing, and its jobs may need them: run `mayfly migrate --app`.")
    assert behind.text.startswith("those of handlers have version 0001, its code needs 0")
    assert behind.text.endswith(": run `mayfly migrate --app`.")
    assert "9999, which its code does not know" in ahead.text
