"""Watch what Mayfly sends to its databases, in the words of the driver."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from mayfly.db.connection import NO_VALUES, Connection, Result
from mayfly.db.dialects import Dialect, Unit, Values, dialect_named


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The statements that are sent in the meantime; ids are others in every database, and left out."""
    sent: list[str] = []
    with watched(sent.append):
        yield sent


@contextmanager
def watched(note: Callable[[str], None]) -> Iterator[None]:
    """Each statement is told before it is sent; what `note` raises is raised by it."""
    execute, execute_many, execute_rows = Connection.execute, Connection.execute_many, Connection.execute_rows

    def noting(self: Connection, statement: str, values: Values = NO_VALUES, ids: Any = None) -> Result:
        note(re.sub(r"{ids of (\w+)}", r"\1 IN (…)", self.dialect.rendered(statement)))
        return execute(self, statement, values, ids)

    def noting_many(self: Connection, statement: str, rows: Sequence[Values]) -> Result:
        note(self.dialect.rendered(statement))
        return execute_many(self, statement, rows)

    def noting_rows(self: Connection, head: str, columns: Sequence[str], rows: Sequence[Any], rest: str) -> Result:
        marks = ", ".join([self.dialect.mark] * len(columns))
        note(f"{head}({marks}), …{rest}")
        return execute_rows(self, head, columns, rows, rest)

    with (
        patch.object(Connection, "execute", noting),
        patch.object(Connection, "execute_many", noting_many),
        patch.object(Connection, "execute_rows", noting_rows),
        _watched_begin(note),
    ):
        yield


@contextmanager
def _watched_begin(note: Callable[[str], None]) -> Iterator[None]:
    """A transaction's begin goes to the driver by itself; those who only look are not told of."""
    with ExitStack() as stack:
        for dialect in map(dialect_named, ("sqlite", "mysql", "postgresql")):
            stack.enter_context(patch.object(type(dialect), "begin", _noting_begin(type(dialect).begin, note)))
        yield


def _noting_begin(begin: Callable[..., bool], note: Callable[[str], None]) -> Callable[..., bool]:
    def noting(self: Dialect, raw: Any, unit: Unit = Unit.TRANSACTION) -> bool:
        if unit is not Unit.READ and (self.name == "sqlite" or unit is Unit.TRANSACTION):
            note("BEGIN IMMEDIATE" if self.name == "sqlite" else "BEGIN")
        return begin(self, raw, unit)

    return noting
