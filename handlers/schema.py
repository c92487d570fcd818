"""Shared by the app_ tables of all areas: one MetaData, and column types for every database."""

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, DateTime, Dialect, Integer, MetaData, String, Text
from sqlalchemy.dialects.mysql import DATETIME, MEDIUMTEXT
from sqlalchemy.types import TypeDecorator

from mayfly import utc_from_driver

MAX_TENANT_LENGTH = 64
MYSQL = ("mysql", "mariadb")  # SQLAlchemy has two names for it

metadata = MetaData()

Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements only INTEGER columns
LongText = Text().with_variant(MEDIUMTEXT(), *MYSQL)  # MySQL's TEXT holds 64 KiB


class Json(TypeDecorator[Any]):
    """Objects and lists. Mayfly's connections to PostgreSQL return JSON as text."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: Any, _dialect: Dialect) -> Any:
        return json.loads(value) if isinstance(value, str) else value


class UtcTimestamp(TypeDecorator[datetime]):
    """Aware UTC datetimes in Python, with microseconds in the database."""

    impl = DateTime(timezone=True).with_variant(DATETIME(fsp=6), *MYSQL)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)  # the others store no zone

    def process_result_value(self, value: datetime | str | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else utc_from_driver(value)


def tenant_column(primary_key: bool = False) -> Column[str]:
    """Of rows that belong to a tenant. An application with one tenant leaves it out: it is `default`."""
    return Column(
        "tenant_id", String(MAX_TENANT_LENGTH), nullable=False, primary_key=primary_key, server_default="default"
    )
