"""`mayfly migrate --app`: the tables of an application, on every database, with versions of their own."""

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from mayfly.errors import SchemaUnknown
from mayfly.registry import packages_named
from mayfly.schema.migrations import PackageTables, app_tables, migrate, migration_sql
from tests.app_package import NAME, NEWEST, TABLES, VERSION_TABLE

CREATED = {*TABLES, VERSION_TABLE}


@pytest.fixture
def shop(app_package: str) -> PackageTables:
    [found] = app_tables(packages_named([app_package]))
    return found


def tables_of(url: str) -> set[str]:
    return set(inspect(create_engine(url, poolclass=NullPool)).get_table_names())


def test_the_tables_of_an_application_are_created_once(database_url: str, shop: PackageTables) -> None:
    """Returns the versions before and after; Mayfly's own tables are not created."""
    first, second = migrate(database_url, shop), migrate(database_url, shop)

    assert (first, second) == ((None, NEWEST), (NEWEST, NEWEST))
    assert tables_of(database_url) == CREATED


def test_both_kinds_of_tables_can_be_in_one_database(migrated_url: str, shop: PackageTables) -> None:
    """Each with its version."""
    before = tables_of(migrated_url)
    try:
        migrate(migrated_url, shop)

        assert tables_of(migrated_url) == before | CREATED
    finally:
        drop(migrated_url)  # the next test gets the same database


def drop(url: str) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for name in CREATED:
            connection.execute(text(f"DROP TABLE IF EXISTS {name}"))


def test_an_unknown_version_is_refused(database_url: str, shop: PackageTables) -> None:
    """Newer code has migrated the database; its tables are not touched."""
    migrate(database_url, shop)
    with create_engine(database_url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0099'"))

    with pytest.raises(SchemaUnknown, match=f"tables of {NAME} have version 0099"):
        migrate(database_url, shop)


def test_code_leaves_newer_tables_alone_that_it_can_use(database_url: str, shop: PackageTables) -> None:
    """The name of the newer migration says so: an application can go back to its older code."""
    migrate(database_url, shop)
    with create_engine(database_url, poolclass=NullPool).begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = 'v3_from_{NEWEST}'"))

    assert migrate(database_url, shop) == (f"v3_from_{NEWEST}", f"v3_from_{NEWEST}")


def test_the_statements_can_be_printed(
    database_url: str, shop: PackageTables, capsys: pytest.CaptureFixture[str]
) -> None:
    """For installations where DDL is run by hand."""
    migration_sql(database_url, shop)

    assert "CREATE TABLE IF NOT EXISTS app_orders" in capsys.readouterr().out
    assert tables_of(database_url) == set()


def test_packages_without_tables_are_skipped(app_package: str) -> None:
    """Only packages with __migrations__ have tables."""
    found = list(app_tables(packages_named(["tests.app_package", app_package])))

    assert [each.package for each in found] == [NAME]
