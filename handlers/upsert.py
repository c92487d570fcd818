"""Inserts of rows that may exist already: each database has its own syntax.

Their statements are kept, because building one takes longer than its execution.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, Table

Row = Mapping[str, Any]
COUNTED = {"preserve_rowcount": True}  # otherwise there is no rowcount of an INSERT on PostgreSQL


def insert_missing(connection: Connection, table: Table, rows: Row | Sequence[Row]) -> int:
    """Insert these rows; existing ones do not change. Returns how many are new.

    MySQL takes a shared lock on existing rows: sessions that update the same row afterwards deadlock. They should
    try the UPDATE first.
    """
    statement = _insert_missing(connection.dialect.name, table)
    return connection.execute(statement, rows, execution_options=COUNTED).rowcount


def upsert(connection: Connection, table: Table, row: Row) -> None:
    """Insert this row, or update these columns of the row with the same primary key."""
    changed = tuple(name for name in row if not table.c[name].primary_key)
    connection.execute(_upsert(connection.dialect.name, table, changed), row)


# Imported here: each dialect takes about 20 ms, and a runner needs one of them.
@cache
def _insert_missing(dialect: str, table: Table) -> Insert:
    match dialect:
        case "sqlite":
            from sqlalchemy.dialects import sqlite

            return sqlite.insert(table).on_conflict_do_nothing()
        case "postgresql":
            from sqlalchemy.dialects import postgresql

            return postgresql.insert(table).on_conflict_do_nothing()
    from sqlalchemy.dialects import mysql

    return mysql.insert(table).prefix_with("IGNORE")


@cache
def _upsert(dialect: str, table: Table, changed: tuple[str, ...]) -> Insert:
    match dialect:
        case "sqlite":
            from sqlalchemy.dialects import sqlite

            lite = sqlite.insert(table)
            return lite.on_conflict_do_update(
                index_elements=table.primary_key.columns, set_={name: lite.excluded[name] for name in changed}
            )
        case "postgresql":
            from sqlalchemy.dialects import postgresql

            postgres = postgresql.insert(table)
            return postgres.on_conflict_do_update(
                index_elements=table.primary_key.columns, set_={name: postgres.excluded[name] for name in changed}
            )
    from sqlalchemy.dialects import mysql

    my = mysql.insert(table)
    return my.on_duplicate_key_update({name: my.inserted[name] for name in changed})
