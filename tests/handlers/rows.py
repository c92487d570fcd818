"""Rows of the platform's tables, written and read by plain SQL as its application would."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mayfly.db.database import Database


@contextmanager
def opened(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


def insert(url: str, table: str, *rows: dict[str, Any]) -> None:
    with opened(url) as database:
        database.run(lambda connection: connection.execute_many(connection.dialect.insert(table, rows[0]), rows))


def select(url: str, statement: str) -> Sequence[tuple[Any, ...]]:
    with opened(url) as database:
        return database.read(lambda connection: [tuple(row) for row in connection.execute(statement).all()])
