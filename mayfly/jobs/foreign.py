"""Speak through an application's own connection, so that a job commits or rolls back with its rows.

Nothing is begun, committed or rolled back here: the transaction is not ours.
"""

from collections.abc import Sequence
from typing import Any

from mayfly.connection import NONE, Connection
from mayfly.dialect import DIALECTS, Dialect, Values, dialect_named, dialect_of_driver
from mayfly.errors import BadField


class ForeignConnection:
    """As much of a Connection as an insert needs, on one of SQLAlchemy's, whatever driver that uses."""

    def __init__(self, given: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._given = given

    def execute(self, statement: str, values: Values = NONE) -> Any:
        from sqlalchemy import text  # somebody has imported it already, or there would be none of its connections

        return self._given.execute(text(statement), self.dialect.all_bound(values))

    def execute_rows(self, head: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rest: str) -> Any:
        from sqlalchemy import text

        statement = f"{head}({', '.join(f':{name}' for name in columns)}){rest}"
        named = (dict(zip(columns, row, strict=True)) for row in rows)
        return self._given.execute(text(statement), [self.dialect.all_bound(row) for row in named])


AnyConnection = Connection | ForeignConnection


def open_connection(given: Any) -> AnyConnection:
    """A SQLAlchemy Connection or Session, a raw driver connection, or what job.write gives: to execute on."""
    if isinstance(given, Connection):
        return given
    dialect = dialect_of_driver(given)
    if dialect is not None:
        return Connection(given, dialect)
    if callable(getattr(given, "get_bind", None)) and callable(getattr(given, "connection", None)):  # an ORM Session
        given = given.connection()
    name = getattr(getattr(given, "dialect", None), "name", None)
    if name not in DIALECTS or not callable(getattr(given, "exec_driver_sql", None)):
        raise BadField(
            "connection",
            type(given).__name__,
            "a SQLAlchemy Connection or Session, or a PyMySQL, psycopg or sqlite3 connection",
        )
    return ForeignConnection(given, dialect_named(name))
