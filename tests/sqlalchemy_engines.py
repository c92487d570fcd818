"""Read and change a database with SQLAlchemy on separate connections, as another program would."""

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.db.database import MAX_TRIES, Database
from mayfly.db.dialects import ErrorKind, Unit

T = TypeVar("T")


# A new engine sends many queries first.
_engines: WeakKeyDictionary[Database, dict[Unit, Engine]] = WeakKeyDictionary()


def engine_of(database: Database, unit: Unit = Unit.TRANSACTION) -> Engine:
    """Connects as Mayfly does, and keeps no connection open. With Unit.READ it takes no write lock on SQLite."""
    engines = _engines.setdefault(database, {})
    if unit not in engines:
        engines[unit] = _new_engine(database, unit)
    return engines[unit]


def _new_engine(database: Database, unit: Unit) -> Engine:
    dialect, url = database.dialect, database.url
    engine = create_engine(url, poolclass=NullPool, creator=lambda: dialect.connect(url))
    listen(engine, "begin", lambda connection: dialect.begin(connection.connection.dbapi_connection, unit))
    return engine


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
