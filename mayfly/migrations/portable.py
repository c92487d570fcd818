"""The pieces of DDL that migrations share: the same table on every database, and no error when run again."""

from alembic import op
from sqlalchemy import Column, String, Table, inspect, text
from sqlalchemy.schema import Computed, SchemaItem

from mayfly.migrations.types import has_partial_indexes


def create_table(name: str, *items: SchemaItem) -> Table:
    """Text is compared exactly, and an id that was pruned is never given out again."""
    counts_up = any(isinstance(each, Column) and each.autoincrement is True for each in items)
    return op.create_table(
        name,
        *items,
        if_not_exists=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        sqlite_autoincrement=counts_up,
    )


def add_columns(table: str, *columns: Column[object]) -> None:
    """Those that are missing: MySQL commits each statement by itself, and a killed migration is run again."""
    context = op.get_context()
    known = set() if context.as_sql else {each["name"] for each in inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in known:
            op.add_column(table, column)


def create_index(name: str, table: str, *columns: str, unique: bool = False, where: str | None = None) -> None:
    """MySQL commits each DDL statement by itself, so a killed migration may have left some indexes behind."""
    context = op.get_context()
    if not context.as_sql and any(each["name"] == name for each in inspect(op.get_bind()).get_indexes(table)):
        return
    partial = text(where) if where and has_partial_indexes(context.dialect) else None
    op.create_index(name, table, list(columns), unique=unique, postgresql_where=partial, sqlite_where=partial)


def replace_index(name: str, table: str, *columns: str, where: str | None = None) -> None:
    """The same index over other columns; one that a killed migration has left behind is made anew."""
    context = op.get_context()
    if context.as_sql or any(each["name"] == name for each in inspect(op.get_bind()).get_indexes(table)):
        op.drop_index(name, table)
    partial = text(where) if where and has_partial_indexes(context.dialect) else None
    op.create_index(name, table, list(columns), postgresql_where=partial, sqlite_where=partial)


def live_key_columns(condition: str) -> list[Column[str]]:
    """A server without partial indexes gets a column that is NULL, and so never in the way, once a job ended."""
    if has_partial_indexes(op.get_context().dialect):
        return []
    return [Column("live_key", String(190), Computed(f"CASE WHEN {condition} THEN unique_key END", persisted=True))]


def create_live_key(table: str, condition: str) -> None:
    partial = has_partial_indexes(op.get_context().dialect)
    column = "unique_key" if partial else "live_key"
    where = f"unique_key IS NOT NULL AND {condition}"
    create_index(f"{table}_unique", table, column, unique=True, where=where)


def renew_live_key(table: str, condition: str) -> None:
    """Let keys be held on another condition. The server that has a column for it changes it in one statement."""
    if has_partial_indexes(op.get_context().dialect):
        op.drop_index(f"{table}_unique", table, if_exists=True)
        create_live_key(table, condition)
    else:
        held = f"CASE WHEN {condition} THEN unique_key END"
        op.execute(f"ALTER TABLE {table} MODIFY COLUMN live_key VARCHAR(190) GENERATED ALWAYS AS ({held}) STORED")
