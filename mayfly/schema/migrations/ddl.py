"""For migration scripts, ours and those of applications: create what is missing, the same on every database.

MySQL commits each DDL statement by itself, so every function here skips what a killed migration has already made.
"""

from alembic import op
from sqlalchemy import Column, Computed, Index, Table, inspect, text
from sqlalchemy.schema import CreateIndex, CreateTable, SchemaItem

from mayfly.schema.column_types import Id, JsonText, LongText, UtcDateTime, has_partial_indexes, utc_now

__all__ = [
    "Id",
    "JsonText",
    "LongText",
    "UtcDateTime",
    "add_columns",
    "create_described",
    "create_index",
    "create_table",
    "utc_now",
]

# Text is compared exactly, on every server.
MYSQL_OPTIONS = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def create_described(table: Table) -> None:
    """A table of mayfly/schema/metadata.py, with its indexes."""
    op.execute(CreateTable(table, if_not_exists=True))
    known = _known_indexes(table.name)
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        if index.name not in known:
            _create_described_index(table, index)


def _create_described_index(table: Table, index: Index) -> None:
    if "generated_column" not in index.info or has_partial_indexes(op.get_context().dialect):
        op.execute(CreateIndex(index))
        return
    # A unique index of a generated column, which is NULL where the condition does not hold.
    name, condition = index.info["generated_column"]
    [key] = index.columns
    case = f"CASE WHEN {condition} THEN {key.name} END"
    add_columns(table.name, Column(name, key.type, Computed(case, persisted=True)))
    create_index(str(index.name), table.name, name, unique=True)


def create_table(name: str, *items: SchemaItem) -> Table:
    """An id that was pruned is never given out again."""
    counts_up = any(isinstance(each, Column) and each.autoincrement is True for each in items)
    return op.create_table(name, *items, if_not_exists=True, sqlite_autoincrement=counts_up, **MYSQL_OPTIONS)


def add_columns(table: str, *columns: Column[object]) -> None:
    context = op.get_context()
    known = set() if context.as_sql else {each["name"] for each in inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in known:
            op.add_column(table, column)


def create_index(name: str, table: str, *columns: str, unique: bool = False, where: str | None = None) -> None:
    if name in _known_indexes(table):
        return
    partial = text(where) if where and has_partial_indexes(op.get_context().dialect) else None
    op.create_index(name, table, list(columns), unique=unique, postgresql_where=partial, sqlite_where=partial)


def _known_indexes(table: str) -> set[str | None]:
    if op.get_context().as_sql:
        return set()
    return {each["name"] for each in inspect(op.get_bind()).get_indexes(table)}
