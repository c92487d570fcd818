"""Column types, defaults and conditions that mean the same on every database."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, Dialect, Integer, Text
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from mayfly.db.dialects import dialect_named, utc_from_driver

MYSQLS = ("mysql", "mariadb")

# Differs because SQLite increments only a column whose type is literally INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")


def is_mysql(dialect: Dialect) -> bool:
    # Differs because SQLAlchemy has a second name for it where an application writes mariadb+pymysql://.
    return dialect.name in MYSQLS


# Differs because MySQL's TEXT ends at 64 KiB, which would cut a long traceback.
LongText = Text().with_variant(mysql.MEDIUMTEXT(), *MYSQLS)


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes in Python, microseconds in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because PostgreSQL can store an instant (a session in another zone still writes it correctly),
        # and MySQL's DATETIME has no fractions by default.
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True, precision=6))
        if is_mysql(dialect):
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sqlite.DATETIME())  # type: ignore[no-untyped-call]

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        # Differs because the others store no zone: they get UTC without one.
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | str | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else utc_from_driver(value)


class JsonText(TypeDecorator[str]):
    """JSON stored as the text that was passed; Mayfly parses it where needed, drivers never do."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because PostgreSQL's jsonb refuses \u0000 and its json does not; MariaDB's JSON would parse the text
        # at every UPDATE of the row, and MySQL's changes it; SQLite has functions for JSON but no type.
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.JSON())
        return dialect.type_descriptor(mysql.LONGTEXT() if is_mysql(dialect) else Text())

    def bind_processor(self, _dialect: Dialect) -> None:
        return None

    def result_processor(self, _dialect: Dialect, _coltype: object) -> None:
        return None


class utc_now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """The database's clock in UTC with microseconds, for every session time zone."""

    type = UtcDateTime()
    inherit_cache = True


# Differs because each database names its clock differently, and only some of them return UTC.
@compiles(utc_now)
def _utc_now(_element: utc_now, compiler: SQLCompiler, **_: object) -> str:
    return dialect_named(compiler.dialect.name).utc_now


class _ColumnCheck(FunctionElement[bool]):
    """A condition on one column, for a CHECK constraint."""

    type = Boolean()
    inherit_cache = True

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column


class is_json_object(_ColumnCheck):  # noqa: N801 - reads as the SQL function it is
    """Parses the whole text, but not where the condition `unless` holds."""

    inherit_cache = True

    def __init__(self, column: str, unless: str) -> None:
        super().__init__(column)
        self.unless = unless


class is_storable_time(_ColumnCheck):  # noqa: N801 - as above
    """A time that every driver can read and the claim can compare: one invalid row would stop its whole lane."""

    inherit_cache = True


@compiles(is_json_object)
def _is_json_object(element: is_json_object, compiler: SQLCompiler, **_: object) -> str:
    # Differs because each database has another function for the type of a JSON value.
    if compiler.dialect.name == "postgresql":
        return f"{element.unless} OR json_typeof({element.column}) = 'object'"
    object_word = "OBJECT" if is_mysql(compiler.dialect) else "object"
    return f"{element.unless} OR json_valid({element.column}) AND json_type({element.column}) = '{object_word}'"


@compiles(is_storable_time)
def _is_storable_time(element: is_storable_time, compiler: SQLCompiler, **_: object) -> str:
    # Differs because SQLite compares the texts, so they must all be in one format and in UTC; the servers also
    # accept times that Python does not (-infinity, BC, 0000-00-00), and PostgreSQL needs the zone.
    name = element.column
    if compiler.dialect.name == "sqlite":
        seconds, fraction = f"substr({name}, 1, 19)", f"substr({name}, 20)"  # strftime would round .9996 up
        is_time = f"{seconds} IS strftime('%Y-%m-%d %H:%M:%S', {seconds}) AND {name} >= '0001'"
        return f"{is_time} AND trim({fraction}, '.0123456789') = ''"
    zone = "+00" if compiler.dialect.name == "postgresql" else ""
    return f"{name} BETWEEN '0001-01-01 00:00:00{zone}' AND '9999-12-31 23:59:59.999999{zone}'"
