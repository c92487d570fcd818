"""Statements of migration scripts. Each can be repeated after a kill, and lets jobs go on while it runs.

MySQL commits each DDL statement by itself, and PostgreSQL builds an index without blocking writes only outside of a
transaction: so each of these skips what a killed migration has already done.
"""

from collections.abc import Sequence
from typing import Any

from alembic import context, op
from sqlalchemy import Column, Computed, Index, Inspector, MetaData, Table, inspect
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from mayfly.schema.column_types import is_mysql

INSTANT = ", ALGORITHM=INSTANT"  # of MySQL and MariaDB: changes the description of the table only, or fails
ONLINE = ", ALGORITHM=INPLACE, LOCK=NONE"  # reads and writes go on while it runs, or it fails at once
INVALID_INDEX = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('{}') AND NOT indisvalid"


def add_column(table: str, column: Column[Any]) -> None:
    """It is nullable or has a constant default: older code does not write it, and no row is rewritten."""
    if column.name in _column_names(table):
        return
    Table(table, MetaData(), column)  # SQLAlchemy only compiles the column of a table
    described = CreateColumn(column).compile(dialect=op.get_context().dialect)
    op.execute(f"ALTER TABLE {table} ADD COLUMN {described}{_suffix(INSTANT)}")


def drop_column(table: str, name: str) -> None:
    inspector = _inspector()
    if inspector is None or name in _column_names(table):
        op.execute(f"ALTER TABLE {table} DROP COLUMN {name}{_suffix(ONLINE)}")


def create_index(name: str, table: str, columns: Sequence[str], unique: bool = False) -> None:
    kind = "UNIQUE INDEX" if unique else "INDEX"
    listed = f"({', '.join(columns)})"
    # Differs because each server has its own way to build an index without blocking writes; SQLite has none.
    if op.get_context().dialect.name == "postgresql":
        with op.get_context().autocommit_block():
            if _is_invalid_index(name):  # what a killed CREATE INDEX CONCURRENTLY leaves
                op.execute(f"DROP INDEX CONCURRENTLY {name}")
            op.execute(f"CREATE {kind} CONCURRENTLY IF NOT EXISTS {name} ON {table} {listed}")
    elif name not in _index_names(table):
        online = is_mysql(op.get_context().dialect)
        added = f"ALTER TABLE {table} ADD {kind} {name} {listed}{ONLINE}"
        op.execute(added if online else f"CREATE {kind} {name} ON {table} {listed}")


def drop_index(name: str, table: str) -> None:
    # Differs as create_index does.
    if op.get_context().dialect.name == "postgresql":
        with op.get_context().autocommit_block():
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    elif _inspector() is None or name in _index_names(table):
        online = is_mysql(op.get_context().dialect)
        op.execute(f"ALTER TABLE {table} DROP INDEX {name}{ONLINE}" if online else f"DROP INDEX {name}")


def create_described(table: Table) -> None:
    """Create a table of mayfly/schema/metadata.py with its indexes."""
    op.execute(CreateTable(table, if_not_exists=True))
    known, columns = _index_names(table.name), _column_names(table.name)
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        if index.name not in known:
            _create_described_index(table, index, columns)


def _create_described_index(table: Table, index: Index, known_columns: set[str]) -> None:
    # Differs because MySQL and MariaDB cannot index only some rows of a table.
    if "generated_column" not in index.info or not is_mysql(op.get_context().dialect):
        op.execute(CreateIndex(index))
        return
    # A unique index of a generated column that is NULL where the condition is false.
    name, condition = index.info["generated_column"]
    [key] = index.columns
    if name not in known_columns:
        case = f"CASE WHEN {condition} THEN {key.name} END"
        op.add_column(table.name, Column(name, key.type, Computed(case, persisted=True)))
    op.create_index(str(index.name), table.name, [name], unique=True)


def _suffix(online: str) -> str:
    return online if is_mysql(op.get_context().dialect) else ""


def _inspector() -> Inspector | None:
    """None where the statements are printed for an unknown database."""
    connection = context.config.attributes.get("connection")
    return None if connection is None else inspect(connection)


def _column_names(table: str) -> set[str]:
    inspector = _inspector()
    found = inspector.get_columns(table) if inspector and inspector.has_table(table) else []
    return {each["name"] for each in found}


def _index_names(table: str) -> set[str]:
    inspector = _inspector()
    found = inspector.get_indexes(table) if inspector and inspector.has_table(table) else []
    return {str(each["name"]) for each in found}


def _is_invalid_index(name: str) -> bool:
    connection = context.config.attributes.get("connection")
    return connection is not None and connection.exec_driver_sql(INVALID_INDEX.format(name)).first() is not None
