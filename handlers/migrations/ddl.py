"""Idempotent CREATE TABLE and CREATE INDEX: MySQL commits each DDL statement separately."""

from alembic import op
from sqlalchemy import Column, inspect
from sqlalchemy.schema import SchemaItem


def create_table(name: str, *items: SchemaItem) -> None:
    """Compare text exactly, and never reuse the id of a deleted row."""
    counts_up = any(isinstance(each, Column) and each.autoincrement is True for each in items)
    op.create_table(
        name,
        *items,
        if_not_exists=True,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        sqlite_autoincrement=counts_up,
    )


def create_index(name: str, table: str, *columns: str, unique: bool = False) -> None:
    """MySQL has no CREATE INDEX IF NOT EXISTS."""
    if not op.get_context().as_sql and any(
        each["name"] == name for each in inspect(op.get_bind()).get_indexes(table)
    ):
        return
    op.create_index(name, table, list(columns), unique=unique)
