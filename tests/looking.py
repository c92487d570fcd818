"""Look into a database, and change it, as somebody else does: with SQLAlchemy, on a connection of one's own."""

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.dialect import Trouble
from mayfly.engine import TRIES, Database

T = TypeVar("T")


_engines: WeakKeyDictionary[Database, Engine] = WeakKeyDictionary()  # a new one asks its server a lot at first


def engine_of(database: Database) -> Engine:
    """Connects as Mayfly does, and keeps nothing open."""
    if database not in _engines:
        _engines[database] = _new_engine(database)
    return _engines[database]


def _new_engine(database: Database) -> Engine:
    dialect, url = database.dialect, database.url
    engine = create_engine(url, poolclass=NullPool, creator=lambda: dialect.connect(url))
    listen(engine, "begin", lambda connection: dialect.begin(connection.connection.dbapi_connection))
    return engine


def run(database: Database, work: Callable[[Connection], T]) -> T:
    """In a transaction that is committed; repeated, as everybody must, after a deadlock."""
    engine = engine_of(database)
    for _ in range(TRIES):
        try:
            with engine.begin() as connection:
                return work(connection)
        except DBAPIError as error:
            if error.orig is None or database.dialect.trouble(error.orig) is not Trouble.REPEAT:
                raise
    raise TimeoutError(f"still locked after {TRIES} tries")
