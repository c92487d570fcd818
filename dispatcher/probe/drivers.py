"""The drivers themselves, without SQLAlchemy: sessions set up as mayfly.dialect sets up those of the full path.

This is the second place that knows the databases apart. The first needs SQLAlchemy, which costs an idle cycle more
than all the rest; what it says is compiled into the *.sql beside this file, or compared with it by tests.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from dispatcher.probe.address import mysql_arguments, postgres_arguments, sqlite_arguments
from dispatcher.probe.server import Server, mysql_server, postgres_server


class PlanningLock(NamedTuple):
    name: str
    holder: str | None
    lease_until: object
    number: int


class Search(NamedTuple):
    """A statement that finds rows to prune."""

    name: str
    by_lane: bool
    setting: str  # how long they are kept


class Session:
    """One connection, and the statements in the words of its database. Times are UTC, aware on our side."""

    def __init__(self, connection: Any, server: Server, dialect: str) -> None:
        self.server = server
        self._connection = connection
        self._statements = parse_statements(Path(__file__).with_name(f"{dialect}.sql").read_text("utf-8"))

    @property
    def schema_version(self) -> str:
        """That of the tables for which the statements were made."""
        return self._statements["schema version"]

    @property
    def searches(self) -> list[Search]:
        names = (name.split() for name in self._statements)
        return [Search(" ".join(words), words[1] == "lane", words[2]) for words in names if words[0] == "prune"]

    def clock(self) -> datetime:
        ((now,),) = self.ask("clock")
        at = datetime.fromisoformat(now) if isinstance(now, str) else now
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def planning_lock(self) -> PlanningLock:
        (row,) = self.ask("lock")
        return PlanningLock(*row)

    def ask(self, name: str, **values: object) -> list[tuple[Any, ...]]:
        return list(self._execute(name, values).fetchall())

    def change(self, name: str, **values: object) -> int:
        """How many rows."""
        return int(self._execute(name, values).rowcount)

    def begin(self) -> None:
        """End the reading, and begin what is to be committed."""
        self._connection.rollback()

    def commit(self) -> None:
        self._connection.commit()

    def close(self) -> None:
        """What was not committed is rolled back by the database."""
        self._connection.close()

    def _execute(self, name: str, values: Mapping[str, object]) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(self._statements[name], {slot: self._bound(value) for slot, value in values.items()})
        return cursor

    def _bound(self, value: object) -> object:
        return value


class _NoZones(Session):
    """Differs because MySQL keeps no zone: it is given UTC without one."""

    def _bound(self, value: object) -> object:
        return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value


class _Embedded(_NoZones):
    """Differs because SQLite keeps times as text, and is the only one to be told when a transaction begins."""

    def _bound(self, value: object) -> object:
        plain = super()._bound(value)
        return plain.isoformat(" ", "microseconds") if isinstance(plain, datetime) else plain

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")


def connect(url: str) -> Session:
    return _CONNECT[url.partition("://")[0]](url)


def _connect_sqlite(url: str) -> Session:
    import sqlite3

    arguments = sqlite_arguments(url)
    if not Path(arguments["database"]).stat().st_size:
        raise FileNotFoundError(arguments["database"])  # to connect would be to create it
    connection = sqlite3.connect(**arguments)
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")
    if connection.execute("PRAGMA journal_mode").fetchall() != [("wal",)]:
        raise ValueError("no WAL")  # the full path switches it on
    return _Embedded(connection, Server("SQLite", sqlite3.sqlite_version_info), "sqlite")


def _connect_mysql(url: str) -> Session:
    import pymysql

    connection = pymysql.connect(**mysql_arguments(url))
    cursor = connection.cursor()
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.execute("SELECT VERSION()")
    ((version,),) = cursor.fetchall()
    server = mysql_server(version)
    return _NoZones(connection, server, server.product.lower())


def _connect_postgres(url: str) -> Session:
    import psycopg

    connection = psycopg.connect(**postgres_arguments(url))
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    ((version,),) = connection.execute("SELECT pg_catalog.version()").fetchall()
    return Session(connection, postgres_server(version), "postgresql")


_CONNECT: Mapping[str, Callable[[str], Session]] = {
    "sqlite": _connect_sqlite,
    "mysql+pymysql": _connect_mysql,
    "postgresql+psycopg": _connect_postgres,
}


def parse_statements(text: str) -> dict[str, str]:
    """{"due": "SELECT …"}: blocks between empty lines, the first is the heading of the file."""
    blocks = (block.partition("\n") for block in text.strip().split("\n\n")[1:])
    return {title.removeprefix("-- "): statement for title, _, statement in blocks}
