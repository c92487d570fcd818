"""Tables of handlers that are missing or outdated: the message has the command to run."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from mayfly.cli.doctor import CheckResult, CheckStatus, Installation, check_tables
from mayfly.db.database import Database
from mayfly.errors import TableMissing
from mayfly.registry import packages_named
from mayfly.schema.migrations import app_tables, migrate
from mayfly.settings import load
from tests.app_package import NAME, VERSION_TABLE


def test_a_missing_app_table_is_distinguished_from_our_tables(database_url: str) -> None:
    """By its name, with any name of the database and any form of the error."""
    database = Database(database_url)

    with pytest.raises(TableMissing) as raised:
        database.run(lambda connection: connection.execute("SELECT * FROM app_templates"))

    database.close()
    assert str(raised.value) == (
        "There is no table app_templates. If it belongs to handlers, run `mayfly migrate --app` once."
    )


def check(url: str) -> CheckResult:
    installation = Installation(load({"DATABASE_URL": url, "HANDLERS": NAME}))
    [found] = check_tables(installation)
    installation.database.close()
    return found


def set_version(url: str, version: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :version"), {"version": version})


def test_doctor_checks_the_version_of_app_tables(database_url: str, app_package: str) -> None:
    """Missing, current, behind and ahead of the code, and ahead but usable."""
    missing = check(database_url)
    [tables] = app_tables(packages_named([app_package]))
    migrate(database_url, tables)
    fine = check(database_url)
    set_version(database_url, "v1")
    behind = check(database_url)
    set_version(database_url, "9999")
    ahead = check(database_url)
    set_version(database_url, "v3_from_v2")
    usable = check(database_url)

    found = [missing, fine, behind, ahead, usable]
    assert [each.status for each in found] == [
        CheckStatus.WARNING,
        CheckStatus.OK,
        CheckStatus.PROBLEM,
        CheckStatus.PROBLEM,
        CheckStatus.OK,
    ]
    assert missing.text == ("shop_with_tables: missing, and its jobs may need them: run `mayfly migrate --app`.")
    assert behind.text.startswith("shop_with_tables: version v1, but its code needs v2")
    assert behind.text.endswith(": run `mayfly migrate --app`.")
    assert "9999, which its code does not know" in ahead.text
    assert "version v3, newer than the v2 of its code, which can use it" in usable.text
