"""The tables as the handlers describe them are the tables that the migration creates."""

import importlib
import pkgutil
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Column, Engine, TableClause, create_engine, inspect, select
from sqlalchemy.pool import NullPool

import handlers
from handlers.cooldown import cooldowns
from handlers.schema import metadata
from handlers.upsert import insert_missing, upsert
from mayfly.db.database import Database

VERSIONS = "app_handlers_version"
NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def engine(platform_url: str) -> Engine:
    return create_engine(platform_url, poolclass=NullPool)


def import_all_tables() -> None:
    for module in pkgutil.walk_packages(handlers.__path__, "handlers."):
        if module.name.endswith((".tables", ".ledger")) or module.name.count(".") == 1:
            importlib.import_module(module.name)


def described(column: Column[object], engine: Engine) -> tuple[str, bool]:
    """Its type, as the database names it, and whether it may be NULL."""
    name = column.type.compile(engine.dialect)
    return name.split(" COLLATE ")[0].split(" CHARACTER ")[0].upper(), bool(column.nullable)


@pytest.mark.every_database
def test_the_migration_creates_the_described_tables(engine: Engine) -> None:
    """Every table and column, with type and nullability. On every database."""
    import_all_tables()
    found = inspect(engine)

    names = {each for each in found.get_table_names() if each.startswith("app_")} - {VERSIONS}
    assert names == set(metadata.tables)
    for table in metadata.tables.values():
        columns = {each["name"]: Column(each["name"], each["type"], nullable=each["nullable"])
                   for each in found.get_columns(table.name)}  # fmt: skip
        assert list(columns) == [each.name for each in table.columns]
        assert found.get_pk_constraint(table.name)["constrained_columns"] == [each.name for each in table.primary_key]
        for column in table.columns:
            created, wanted = described(columns[column.name], engine), described(column, engine)
            assert same(created, wanted), f"{table.name}.{column.name}: {created} is not {wanted}"


# Of other areas: `app_templates` and `app_suppressions` belong to campaigns and the mail room, too.
TENANT_MODULES = ("handlers.campaigns.tables", "handlers.mailroom.tables", "handlers.suppressions")
OF_TENANTS = {"app_templates"}
LIGHT = {"mayfly_jobs"}  # described for queries, no table of the application


@pytest.mark.every_database
def test_each_row_of_campaigns_and_mail_belongs_to_a_tenant(engine: Engine) -> None:
    """In each table of both areas. On every database."""
    import_all_tables()
    modules = [importlib.import_module(name) for name in TENANT_MODULES]
    described = {each.name for module in modules for each in vars(module).values() if isinstance(each, TableClause)}
    names = {*described, *OF_TENANTS} - LIGHT
    found = inspect(engine)

    nullable = {
        name: {each["nullable"] for each in found.get_columns(name) if each["name"] == "tenant_id"} for name in names
    }
    assert len(names) > 30
    assert {name: values for name, values in nullable.items() if values != {False}} == {}


def same(created: tuple[str, bool], wanted: tuple[str, bool]) -> bool:
    """MariaDB's JSON is LONGTEXT, MySQL's integers have a display width, PostgreSQL's float is a double."""
    alike = {"LONGTEXT": "JSON", "BIGINT(20)": "BIGINT", "INTEGER(11)": "INTEGER", "SMALLINT(6)": "SMALLINT",
             "DOUBLE PRECISION": "FLOAT", "DOUBLE": "FLOAT"}  # fmt: skip
    return (alike.get(created[0], created[0]), created[1]) == (alike.get(wanted[0], wanted[0]), wanted[1])


@pytest.mark.every_database
def test_an_upsert_overwrites_and_an_insert_of_missing_rows_does_not(platform_url: str) -> None:
    """The new rows are counted; times come back in UTC with all their digits. On every database."""
    rows = [{"provider": each, "until_at": NOON, "reason": "first"} for each in ("ann", "bob")]
    database = Database(platform_url)

    given: tuple[Any, ...] = (rows[0], {**rows[0], "reason": "no"}, [{**rows[0], "reason": "no"}, rows[1]])
    new = [database.run_sqlalchemy(lambda connection: insert_missing(connection, cooldowns, each)) for each in given]  # noqa: B023
    database.run_sqlalchemy(lambda connection: upsert(connection, cooldowns, {**rows[1], "reason": "second"}))
    found = database.run_sqlalchemy(
        lambda connection: connection.execute(select(cooldowns).order_by("provider")).all()
    )
    database.close()

    assert new == [1, 0, 1]
    assert [tuple(each) for each in found] == [("ann", NOON, "first"), ("bob", NOON, "second")]
