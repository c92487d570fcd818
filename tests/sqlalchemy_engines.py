"""Read and change a database with SQLAlchemy on separate connections, as another program would."""

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.db.database import MAX_TRIES, Database
from mayfly.db.dialects import ErrorKind, Unit

T = TypeVar("T")


# A new engine sends many queries first, and compiles each statement anew. Those of servers serve all tests of a
# database, those of SQLite, whose files are never reused, one test.
_server_engines: dict[tuple[str, Unit], Engine] = {}
_file_engines: WeakKeyDictionary[Database, dict[Unit, Engine]] = WeakKeyDictionary()


def engine_of(database: Database, unit: Unit = Unit.TRANSACTION) -> Engine:
    """Connects as Mayfly does. With Unit.READ it takes no write lock on SQLite."""
    if database.url.startswith("sqlite"):
        engines = _file_engines.setdefault(database, {})
        if unit not in engines:
            engines[unit] = _new_engine(database, unit, poolclass=NullPool)
        return engines[unit]
    found = _server_engines.get((database.url, unit))
    if found is None:
        # One connection stays open until the end of the test: a new one takes PostgreSQL 10 ms.
        made = _new_engine(database, unit, pool_size=1, max_overflow=-1, pool_pre_ping=True)
        found = _server_engines.setdefault((database.url, unit), made)  # another thread may have been first
    return found


def _new_engine(database: Database, unit: Unit, **options: Any) -> Engine:
    dialect, url = database.dialect, database.url
    engine = create_engine(url, creator=lambda: dialect.connect(url), **options)
    listen(engine, "begin", lambda connection: dialect.begin(connection.connection.dbapi_connection, unit))
    return engine


def close_connections(name: str) -> None:
    """Those that are kept open to the database of this name, also through PgBouncer."""
    for url, unit in _keys_of(name):
        _server_engines[url, unit].dispose()


def forget_engines(name: str) -> None:
    """Of a database that is dropped."""
    close_connections(name)
    for key in _keys_of(name):
        del _server_engines[key]


def _keys_of(name: str) -> list[tuple[str, Unit]]:
    return [(url, unit) for url, unit in _server_engines if f"/{name}" in url]


def run(database: Database, work: Callable[[Connection], T]) -> T:
    """In a transaction that is committed, and repeated after a deadlock."""
    engine = engine_of(database)
    for _ in range(MAX_TRIES):
        try:
            with engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            if error.orig is None or database.dialect.error_kind(error.orig) is not ErrorKind.REPEAT:
                raise
    raise TimeoutError(f"still locked after {MAX_TRIES} tries")
