"""Column types and conditions for migrations: the same table on every database."""

from datetime import UTC, datetime
from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, DateTime, Dialect, Integer, String, Table, Text, inspect, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import Computed, SchemaItem
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from mayfly.db.dialects import dialect_named, utc_from_driver

MYSQLS = ("mysql", "mariadb")

# Differs because SQLite counts up only in a column that is literally INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")


def is_mysql(dialect: Dialect) -> bool:
    # Differs because SQLAlchemy has a second name for it where an application writes mariadb+pymysql://.
    return dialect.name in MYSQLS


class LongText(TypeDecorator[str]):
    """Text without an end that anybody will meet."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because MySQL's TEXT ends at 64 KiB and a truncated traceback should still hold its last line.
        if is_mysql(dialect):
            from sqlalchemy.dialects.mysql import MEDIUMTEXT

            return dialect.type_descriptor(MEDIUMTEXT())
        return dialect.type_descriptor(Text())


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes in Python, microseconds in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because PostgreSQL can keep an instant (a session in another zone still writes it right),
        # and MySQL's DATETIME drops fractions unless asked for them.
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True, precision=6))
        if is_mysql(dialect):
            from sqlalchemy.dialects import mysql

            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        from sqlalchemy.dialects import sqlite

        return dialect.type_descriptor(sqlite.DATETIME())  # type: ignore[no-untyped-call]

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        # Differs because the others keep no zone: they are given UTC without one.
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | str | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else utc_from_driver(value)


class JsonText(TypeDecorator[str]):
    """JSON kept as the text that came in: parsed once, by us, and only where somebody looks."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because PostgreSQL's jsonb refuses \u0000 and its json does not; MariaDB's JSON is text with
        # a check; SQLite has functions for JSON but no type.
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return dialect.type_descriptor(postgresql.JSON())
        if is_mysql(dialect):
            from sqlalchemy.dialects import mysql

            return dialect.type_descriptor(mysql.JSON())
        return dialect.type_descriptor(Text())

    def bind_processor(self, _dialect: Dialect) -> None:
        return None

    def result_processor(self, _dialect: Dialect, _coltype: object) -> None:
        return None


class utc_now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """The database's clock in UTC, whatever the session's zone, with all its digits."""

    type = UtcDateTime()
    inherit_cache = True


# Differs because each database names its clock otherwise, and only some of them keep it in UTC.
@compiles(utc_now)
def _utc_now(_element: utc_now, compiler: SQLCompiler, **_: object) -> str:
    return dialect_named(compiler.dialect.name).utc_now


def has_partial_indexes(dialect: Dialect) -> bool:
    # Differs because MySQL and MariaDB cannot index some of a table's rows only.
    return not is_mysql(dialect)


def json_object_check(dialect: Dialect, name: str) -> str:
    # Differs because each database names the type of a JSON value by another function.
    if dialect.name == "postgresql":
        return f"json_typeof({name}) = 'object'"
    object_word = "OBJECT" if is_mysql(dialect) else "object"
    return f"json_valid({name}) AND json_type({name}) = '{object_word}'"


def time_check(dialect: Dialect, name: str) -> str:
    """Times that every driver can read and the claim can compare: one other row would stop its whole lane."""
    # Differs because SQLite compares the texts, so they must all be written alike and in UTC; the servers also
    # know times that Python does not (-infinity, BC, 0000-00-00), and PostgreSQL wants to hear which zone.
    if dialect.name == "sqlite":
        seconds, fraction = f"substr({name}, 1, 19)", f"substr({name}, 20)"  # strftime would round .9996 up
        is_time = f"{seconds} IS strftime('%Y-%m-%d %H:%M:%S', {seconds}) AND {name} >= '0001'"
        return f"{is_time} AND trim({fraction}, '.0123456789') = ''"
    zone = "+00" if dialect.name == "postgresql" else ""
    return f"{name} BETWEEN '0001-01-01 00:00:00{zone}' AND '9999-12-31 23:59:59.999999{zone}'"


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
