"""An application's own connection, of each kind that `enqueue(connection=…)` accepts."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import django  # type: ignore[import-untyped]
import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extras
import pymysql
import pymysql.cursors
import pytest
from django.conf import settings  # type: ignore[import-untyped]
from django.db.utils import ConnectionHandler  # type: ignore[import-untyped]
from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.servers import engine_names


class Application:
    """Writes rows, commits and rolls back on a connection of any kind."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def run(self, statement: str) -> None:
        if hasattr(self.connection, "cursor"):
            self.connection.cursor().execute(statement)
        else:
            self.connection.execute(text(statement))

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()


def as_connection(url: str) -> Any:
    return create_engine(url, poolclass=NullPool).connect()


def as_session(url: str) -> Any:
    return Session(create_engine(url, poolclass=NullPool))


def as_mariadb(url: str) -> Any:
    """SQLAlchemy has a dialect of another name for this URL."""
    return create_engine(url.replace("mysql+pymysql", "mariadb+pymysql"), poolclass=NullPool).connect()


def raw(url: str) -> Any:
    return _open(url)


def raw_with_dictionaries(url: str) -> Any:
    """Applications often use rows by column name."""
    connection = _open(url)
    if isinstance(connection, pymysql.Connection):
        connection.cursorclass = pymysql.cursors.DictCursor
    elif isinstance(connection, psycopg.Connection):
        connection.row_factory = psycopg.rows.dict_row
    else:
        connection.row_factory = sqlite3.Row
    return connection


def as_django(url: str) -> Any:
    """What `django.db.connection` is, in a transaction."""
    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    parsed = make_url(url)
    backend = {"sqlite": "sqlite3", "postgresql": "postgresql"}[parsed.get_backend_name()]
    where = {"HOST": parsed.host, "PORT": parsed.port, "USER": parsed.username, "PASSWORD": parsed.password}
    database = {"ENGINE": f"django.db.backends.{backend}", "NAME": parsed.database, **where}
    connection = ConnectionProxy(ConnectionHandler({"default": database}), "default")
    connection.set_autocommit(False)
    return connection


def raw_psycopg2(url: str) -> Any:
    where = make_url(url).translate_connect_args(username="user", database="dbname")
    return psycopg2.connect(**where)


def raw_psycopg2_with_dictionaries(url: str) -> Any:
    connection = raw_psycopg2(url)
    connection.cursor_factory = psycopg2.extras.RealDictCursor
    return connection


Kind = Callable[[str], Any]
KINDS: list[Kind] = [as_connection, as_session, raw, raw_with_dictionaries]
MORE_KINDS: dict[str, list[Kind]] = {
    "sqlite": [as_django],
    "postgres": [as_django, raw_psycopg2, raw_psycopg2_with_dictionaries],
}
every_kind = pytest.mark.parametrize(
    ("kind", "engine_name"),
    [(kind, name) for name in engine_names(os.environ) for kind in KINDS + MORE_KINDS.get(name, [])],
    indirect=["engine_name"],
)


@contextmanager
def opened(kind: Kind, url: str) -> Iterator[Application]:
    connection = kind(url)
    yield Application(connection)
    connection.close()


def _open(url: str) -> Any:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return sqlite3.connect(parsed.database or "")
    where: dict[str, Any] = {"host": parsed.host, "port": parsed.port, "user": parsed.username}
    if parsed.get_backend_name() == "mysql":
        return pymysql.connect(**where, password=parsed.password or "", database=parsed.database, charset="utf8mb4")
    return psycopg.connect(**where, password=parsed.password, dbname=parsed.database)
