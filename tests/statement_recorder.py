"""Record the statements that Mayfly sends to its databases, as passed to the driver."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from mayfly.db.connection import NO_VALUES, Connection, Result
from mayfly.db.dialects import Dialect, Unit, Values, dialect_named


@contextmanager
def recorded_statements() -> Iterator[list[str]]:
    """The statements sent inside the block, without ids, which differ between databases."""
    sent: list[str] = []
    with on_statement(sent.append):
        yield sent


@contextmanager
def on_statement(record: Callable[[str], None]) -> Iterator[None]:
    """Calls `record` before each statement is sent; its exceptions are raised by the statement."""
    execute, execute_many, execute_rows = Connection.execute, Connection.execute_many, Connection.execute_rows

    def recording(self: Connection, statement: str, values: Values = NO_VALUES, ids: Any = None) -> Result:
        record(re.sub(r"{ids of (\w+)}", r"\1 IN (…)", self.dialect.rendered(statement)))
        return execute(self, statement, values, ids)

    def recording_many(self: Connection, statement: str, rows: Sequence[Values]) -> None:
        record(self.dialect.rendered(statement))
        execute_many(self, statement, rows)

    def recording_rows(self: Connection, head: str, columns: Sequence[str], rows: Sequence[Any], rest: str) -> Result:
        marks = ", ".join([self.dialect.mark] * len(columns))
        record(f"{head}({marks}), …{rest}")
        return execute_rows(self, head, columns, rows, rest)

    with (
        patch.object(Connection, "execute", recording),
        patch.object(Connection, "execute_many", recording_many),
        patch.object(Connection, "execute_rows", recording_rows),
        _on_begin(record),
    ):
        yield


@contextmanager
def _on_begin(record: Callable[[str], None]) -> Iterator[None]:
    """The driver begins transactions without a statement; begins of reads are not recorded."""
    with ExitStack() as stack:
        for dialect in map(dialect_named, ("sqlite", "mysql", "postgresql")):
            stack.enter_context(patch.object(type(dialect), "begin", _recording_begin(type(dialect).begin, record)))
        yield


def _recording_begin(begin: Callable[..., bool], record: Callable[[str], None]) -> Callable[..., bool]:
    def recording(self: Dialect, raw: Any, unit: Unit = Unit.TRANSACTION) -> bool:
        if unit is not Unit.READ and (self.name == "sqlite" or unit is Unit.TRANSACTION):
            record("BEGIN IMMEDIATE" if self.name == "sqlite" else "BEGIN")
        return begin(self, raw, unit)

    return recording
