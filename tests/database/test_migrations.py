"""Migrations: the same tables on every database, run repeatedly, concurrently, or killed in the middle."""

import json
import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Engine, Inspector, create_engine, inspect
from sqlalchemy.event import listen
from sqlalchemy.pool import NullPool

from mayfly.db.database import Database
from mayfly.errors import DatabaseError, SchemaMismatch, SchemaUnknown
from mayfly.schema import metadata as tables
from mayfly.schema import migrations
from mayfly.schema import tables as schema_tables
from mayfly.schema.column_types import is_mysql
from mayfly.schema.migrations import migrate, migration_sql
from mayfly.schema.tables import require_version
from tests.database.factories import claim_ids, run_sql
from tests.factories import insert_row

GOLDEN = Path(__file__).parents[1] / "golden"
NEWEST = migrations.OWN.versions()[0]
FORK = multiprocessing.get_context("fork")  # Mayfly is imported already, so a forked child starts at once


def test_the_first_migration_starts_from_an_empty_database(database_url: str) -> None:
    """It returns the versions before and after."""
    versions = migrate(database_url)

    assert versions == (None, NEWEST)


def test_migrating_again_changes_nothing(migrated_url: str) -> None:
    """It returns the same version twice, and the tables are unchanged."""
    before = shape_of(migrated_url)

    versions = migrate(migrated_url)

    assert versions == (NEWEST, NEWEST)
    assert shape_of(migrated_url) == before


def test_a_migration_changes_no_row(database: Database, migrated_url: str) -> None:
    """It can be run again while the tables are in use."""
    job = insert_row(database)

    migrate(migrated_url)

    assert claim_ids(database) == [job]


def test_two_hosts_migrate_at_once(database_url: str, migrated_url: str) -> None:
    """One of them migrates, the others wait and find it done."""
    with started(migrate_together, database_url, processes=3) as answers:
        versions = [answers.get(timeout=120) for _ in range(3)]

    assert sorted(versions, key=str) == [
        (NEWEST, NEWEST),
        (NEWEST, NEWEST),
        (None, NEWEST),
    ]
    assert shape_of(database_url) == shape_of(migrated_url)


def test_a_database_newer_than_the_code_is_refused(database: Database, migrated_url: str) -> None:
    """An old release must not write into tables that it does not know."""
    run_sql(database, "UPDATE mayfly_version SET version_num = '9999'")

    with pytest.raises(SchemaMismatch, match="9999"):
        migrate(migrated_url)


@pytest.mark.parametrize(
    ("version", "error"), [("0007", SchemaMismatch), ("0000", SchemaUnknown), ("x", SchemaMismatch)]
)
def test_a_version_without_a_migration_is_refused(
    database: Database, migrated_url: str, version: str, error: type[DatabaseError]
) -> None:
    """The sentence names it: databases from before the first release had more migrations."""
    run_sql(database, f"UPDATE mayfly_version SET version_num = '{version}'")

    with pytest.raises(error, match=f"version {version}, .*new|Upgrade mayfly"):
        migrate(migrated_url)


def test_a_migration_killed_in_the_middle_is_completed_by_the_next(
    engine_name: str, database_url: str, migrated_url: str
) -> None:
    """Wherever it was killed: MariaDB keeps each created table and index, the others roll back."""
    keeps_each = engine_name not in ("sqlite", "postgres")
    for statement in range(1, 90, 6 if keeps_each else 22):
        die_before(database_url, statement)

    migrate(database_url)

    assert shape_of(database_url) == shape_of(migrated_url)
    assert contents_of(database_url) == contents_of(migrated_url)


def test_the_printed_statements_create_the_same_tables(
    database_url: str, migrated_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """For installations where DDL is run by hand; Mayfly then finds the tables complete."""
    migration_sql(database_url)
    run_script(database_url, capsys.readouterr().out)

    assert shape_of(database_url) == shape_of(migrated_url)
    assert contents_of(database_url) == contents_of(migrated_url)
    assert migrate(database_url) == (NEWEST, NEWEST)


def test_the_migrated_tables_are_those_of_the_metadata(
    database_url: str, migrated_url: str, engine_name: str
) -> None:
    """Columns, types, defaults, keys, indexes and checks are those of mayfly/schema/metadata.py."""
    with create_engine(database_url, poolclass=NullPool).begin() as connection:
        tables.metadata.create_all(connection)

    migrated, described = shape_of(migrated_url), shape_of(database_url)

    del migrated[schema_tables.VERSION_TABLE]
    if engine_name not in ("sqlite", "postgres"):  # a generated column replaces the partial unique index
        for shape in (migrated["mayfly_jobs"], described["mayfly_jobs"]):
            shape["columns"] = [each for each in shape["columns"] if "live_key" not in each]
            shape["indexes"] = [each for each in shape["indexes"] if "mayfly_jobs_unique" not in each]
    assert migrated == described


def test_every_table_and_column_has_a_comment() -> None:
    """One sentence, for the reference page."""
    unclear = [str(column) for table in tables.metadata.sorted_tables for column in table.columns if not column.doc]

    assert unclear == []
    assert all(table.info["meaning"] for table in tables.metadata.sorted_tables)


def test_the_expected_version_is_the_newest_migration() -> None:
    """A new migration needs a new VERSION, the number that its name begins with."""
    assert NEWEST is not None
    assert schema_tables.version_number(NEWEST) == schema_tables.VERSION


@pytest.mark.parametrize("dialect", ["mysql", "postgresql", "sqlite"])
def test_a_released_migration_never_changes(dialect: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A change of mayfly/schema/metadata.py needs a migration of its own, see v0001_initial.py.

    UPDATE_GOLDEN=1 writes the statements, for a migration that is not released yet.
    """
    path = GOLDEN / f"migration_0001_{dialect}.sql"

    command.upgrade(migrations.OWN.config(dialect_name=dialect), "0001", sql=True)

    printed = capsys.readouterr().out
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(printed)
    assert printed == path.read_text()


def test_a_migrated_database_is_accepted(database: Database) -> None:
    """By the check of every cycle."""
    database.read(require_version)


# --- processes --------------------------------------------------------------------------------------------


@contextmanager
def started(work: Any, url: str, processes: int) -> Iterator[Any]:
    answers = FORK.Queue()
    barrier = FORK.Barrier(processes)
    running = [FORK.Process(target=work, args=(url, barrier, answers)) for _ in range(processes)]
    for each in running:
        each.start()
    yield answers
    for each in running:
        each.join()


def migrate_together(url: str, barrier: Barrier, answers: Any) -> None:
    barrier.wait()
    answers.put(migrate(url))


def die_before(url: str, statement: int) -> None:
    """Migrate in a process that is killed before it sends that statement."""
    child = FORK.Process(target=migrate_until, args=(url, statement))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)


def migrate_until(url: str, statement: int) -> None:
    sent = 0

    def count(*_: object) -> None:
        nonlocal sent
        sent += 1
        if sent == statement:
            os.kill(os.getpid(), signal.SIGKILL)

    listen(Engine, "before_cursor_execute", count)
    migrate(url)


# --- the contents of a database ---------------------------------------------------------------------------


def shape_of(url: str) -> dict[str, Any]:
    """Tables with their columns, types, defaults, keys, indexes and checks."""
    with create_engine(url, poolclass=NullPool).connect() as connection:
        inspector = inspect(connection)
        return {table: shape_of_table(inspector, table) for table in inspector.get_table_names()}


def shape_of_table(inspector: Inspector, table: str) -> dict[str, Any]:
    return {
        "columns": texts_of(inspector.get_columns(table)),
        "key": inspector.get_pk_constraint(table),
        "indexes": sorted(texts_of(inspector.get_indexes(table))),
        "checks": sorted(texts_of(inspector.get_check_constraints(table))),
        "options": inspector.get_table_options(table) if is_mysql(inspector.dialect) else None,
    }


def texts_of(found: Iterable[Any]) -> list[str]:
    """Types and conditions are compared by their texts, since the objects are only equal to themselves."""
    return [json.dumps(each, default=lambda value: str(value), sort_keys=True) for each in found]


def contents_of(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with create_engine(url, poolclass=NullPool).connect() as connection:
        return {
            table: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {table}")]
            for table in sorted(inspect(connection).get_table_names())
        }


def run_script(url: str, script: str) -> None:
    """As `psql -f`, `mariadb <` and `sqlite3 <` do: statement by statement."""
    with create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
        for statement in script.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
