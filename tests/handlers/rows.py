"""Rows of the app_ tables, written and read by plain SQL as the application would."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection

from handlers.search.query import Read
from mayfly.db.database import Database
from mayfly.db.dialects import Unit

T = TypeVar("T")


@contextmanager
def opened(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


def reader(database: Database) -> Read:
    """Like job.read, outside of a job."""

    def read(work: Callable[[Connection], T]) -> T:
        return database.run_sqlalchemy(work, Unit.READ)

    return read


def insert(url: str, table: str, *rows: dict[str, Any]) -> None:
    with opened(url) as database:
        database.run(lambda connection: connection.execute_many(connection.dialect.insert(table, rows[0]), rows))


def select(url: str, statement: str) -> Sequence[tuple[Any, ...]]:
    with opened(url) as database:
        return database.read(lambda connection: [tuple(row) for row in connection.execute(statement).all()])


def execute(url: str, statement: str) -> None:
    with opened(url) as database:
        database.run(lambda connection: connection.execute(statement))
