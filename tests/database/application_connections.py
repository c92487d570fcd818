"""An application's own connection to the database, of each kind that `enqueue(connection=…)` takes."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg.rows
import pymysql
import pymysql.cursors
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool


class Application:
    """What an application does with its connection, whatever that is: write rows, commit, roll back."""

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
    """SQLAlchemy has a dialect of another name for those who write their URL so."""
    return create_engine(url.replace("mysql+pymysql", "mariadb+pymysql"), poolclass=NullPool).connect()


def raw(url: str) -> Any:
    return _open(url)


def raw_with_dictionaries(url: str) -> Any:
    """Applications often ask their driver for rows by name."""
    connection = _open(url)
    if isinstance(connection, pymysql.Connection):
        connection.cursorclass = pymysql.cursors.DictCursor
    elif isinstance(connection, psycopg.Connection):
        connection.row_factory = psycopg.rows.dict_row
    else:
        connection.row_factory = sqlite3.Row
    return connection


KINDS: list[Callable[[str], Any]] = [as_connection, as_session, raw, raw_with_dictionaries]


@contextmanager
def opened(kind: Callable[[str], Any], url: str) -> Iterator[Application]:
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
