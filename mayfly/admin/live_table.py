"""A table of the application, as the database describes it.

Read by SQLAlchemy's inspector, which takes 200 ms to import.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection as SqlConnection
from sqlalchemy import inspect, text, types
from sqlalchemy.dialects import mysql
from sqlalchemy.engine.reflection import Inspector

from mayfly.db.database import Database
from mayfly.db.dialects import Unit
from mayfly.schema.column_types import MYSQLS


class ColumnKind(StrEnum):
    INTEGER = "an integer"
    SMALL_INTEGER = "an integer of at most 32 bits"
    NUMBER = "a number"
    TEXT = "text"
    UUID = "a UUID"
    DATETIME = "a date and time"
    ZONED = "a date and time with a zone of its own"
    BINARY = "binary"
    OTHER = "of another type"


INTEGERS = (ColumnKind.INTEGER, ColumnKind.SMALL_INTEGER)
TIMES = (ColumnKind.DATETIME, ColumnKind.ZONED)


class LiveColumn(NamedTuple):
    name: str
    type: str  # in the words of the database
    kind: ColumnKind
    max_length: int | None = None  # of texts; None also if the database does not enforce it
    values: tuple[str, ...] | None = None  # of an ENUM
    changes_itself: bool = False  # ON UPDATE CURRENT_TIMESTAMP


@dataclass(frozen=True)
class LiveTable:
    """A table of the application, as the database describes it."""

    name: str
    exists: bool = True
    is_view: bool = False
    is_strict: bool = True  # SQLite stores any value in any column
    columns: Mapping[str, LiveColumn] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    storage_engine: str | None = None  # of MySQL and MariaDB
    others: tuple[str, ...] = ()  # tables of the database, if this one does not exist


def read_table(database: Database, name: str) -> LiveTable:
    return database.run_sqlalchemy(lambda sql: _read_table(sql, name), Unit.READ)


def _read_table(sql: SqlConnection, full_name: str) -> LiveTable:
    inspector: Inspector = inspect(sql)
    schema, _, name = full_name.rpartition(".")
    where: dict[str, Any] = {"schema": schema or None}
    if schema and schema.lower() not in map(str.lower, inspector.get_schema_names()):
        return LiveTable(full_name, exists=False)
    tables = inspector.get_table_names(**where)
    if name not in tables:
        is_view = inspector.has_table(name, **where)  # true for views of all kinds
        return LiveTable(full_name, exists=is_view, is_view=is_view, others=tuple(tables))
    is_mysql, is_strict = sql.dialect.name in MYSQLS, sql.dialect.name != "sqlite"
    more = _mysql_columns(sql, schema, name) if is_mysql else {}
    indexes = [tuple(filter(None, each["column_names"])) for each in inspector.get_indexes(name, **where)]
    return LiveTable(
        full_name,
        is_strict=is_strict,
        columns={
            each["name"]: _column(each["name"], each["type"], is_strict, more.get(each["name"]))
            for each in inspector.get_columns(name, **where)
        },
        primary_key=tuple(inspector.get_pk_constraint(name, **where)["constrained_columns"]),
        indexes=tuple(indexes),
        storage_engine=_storage_engine(sql, schema, name) if is_mysql else None,
    )


_OF_TABLE = "WHERE table_schema = COALESCE(:schema, DATABASE()) AND table_name = :name"
MYSQL_COLUMNS = f"SELECT column_name, data_type, extra FROM information_schema.columns {_OF_TABLE}"
STORAGE_ENGINE = f"SELECT engine FROM information_schema.tables {_OF_TABLE}"


class MySqlColumn(NamedTuple):
    """What the inspector does not report."""

    data_type: str
    extra: str


def _mysql_columns(sql: SqlConnection, schema: str, name: str) -> dict[str, MySqlColumn]:
    rows = sql.execute(text(MYSQL_COLUMNS), {"schema": schema or None, "name": name}).all()
    return {column: MySqlColumn(data_type.lower(), extra.lower()) for column, data_type, extra in rows}


def _storage_engine(sql: SqlConnection, schema: str, name: str) -> str | None:
    found: str | None = sql.execute(text(STORAGE_ENGINE), {"schema": schema or None, "name": name}).scalar()
    return found


def _column(name: str, given: types.TypeEngine[Any], is_strict: bool, more: MySqlColumn | None) -> LiveColumn:
    values = tuple(given.enums) if isinstance(given, types.Enum) else None
    length = getattr(given, "length", None) if is_strict and isinstance(given, types.String) else None
    changes_itself = more is not None and "on update" in more.extra
    if more is not None and more.data_type == "uuid":  # SQLAlchemy does not know MariaDB's
        return LiveColumn(name, "UUID", ColumnKind.UUID)
    return LiveColumn(name, str(given), kind_of(given), None if values else length, values, changes_itself)


def kind_of(given: types.TypeEngine[Any]) -> ColumnKind:
    match given:
        case types.Uuid():
            return ColumnKind.UUID
        case types.Boolean():
            return ColumnKind.OTHER
        case types.BigInteger():
            return ColumnKind.INTEGER
        case types.Integer():
            return ColumnKind.SMALL_INTEGER
        case types.Numeric():
            return ColumnKind.NUMBER
        case mysql.TIMESTAMP() | types.DateTime(timezone=True):
            return ColumnKind.ZONED
        case types.DateTime():
            return ColumnKind.DATETIME
        case types.LargeBinary() | types.BINARY() | types.VARBINARY():
            return ColumnKind.BINARY
        case types.String():
            return ColumnKind.TEXT
    return ColumnKind.OTHER
