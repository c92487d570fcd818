"""Speak through an application's own driver connection, so that a job commits or rolls back with its rows.

SQLAlchemy only writes the SQL here. Wrapping the connection in an Engine would begin, reset and roll back
transactions that are not ours.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from mayfly.dialect import dialect_of_raw
from mayfly.errors import BadField


class ForeignConnection:
    """As much of a SQLAlchemy Connection as an insert needs, on a PyMySQL, psycopg or sqlite3 connection."""

    def __init__(self, raw: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._raw = raw

    def execute(
        self, statement: ClauseElement, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]] = MappingProxyType({})
    ) -> "ForeignResult":
        cursor = self._raw.cursor()
        columns = list(rows if isinstance(rows, Mapping) else rows[0]) or None
        compiled = statement.compile(
            dialect=self.dialect, column_keys=columns, compile_kwargs={"render_postcompile": True}
        )
        assert isinstance(compiled, SQLCompiler)
        if isinstance(rows, Mapping):
            cursor.execute(str(compiled), self._parameters(compiled, rows))
        else:
            cursor.executemany(str(compiled), [self._parameters(compiled, row) for row in rows])
        return ForeignResult(cursor)

    def _parameters(self, compiled: SQLCompiler, row: Mapping[str, Any]) -> Any:
        """As the driver wants them: converted by the column's type, in a tuple or by name."""
        values = {
            name: self._converted(compiled, name, value)
            for name, value in compiled.construct_params(dict(row)).items()
        }
        return tuple(values[name] for name in compiled.positiontup or ()) if compiled.positional else values

    def _converted(self, compiled: SQLCompiler, name: str, value: Any) -> Any:
        convert = compiled.binds[name].type.dialect_impl(self.dialect).bind_processor(self.dialect)
        return convert(value) if convert else value


class ForeignResult:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    @property
    def lastrowid(self) -> int:
        return int(self._cursor.lastrowid)

    def scalar(self) -> Any:
        row = self._cursor.fetchone()
        if row is None:
            return None
        # Applications often ask their driver for rows as dictionaries.
        return next(iter(row.values())) if isinstance(row, Mapping) else row[0]

    def scalar_one(self) -> Any:
        return self.scalar()


AnyConnection = Connection | ForeignConnection


def open_connection(given: Any) -> AnyConnection:
    """A SQLAlchemy Connection or Session, or a raw driver connection, as something to execute on."""
    if isinstance(given, Connection):
        return given
    if hasattr(given, "get_bind") and callable(getattr(given, "connection", None)):  # an ORM Session
        connection = given.connection()
        assert isinstance(connection, Connection)
        return connection
    dialect = dialect_of_raw(given)
    if dialect is None:
        raise BadField(
            "connection",
            type(given).__name__,
            "a SQLAlchemy Connection or Session, or a PyMySQL, psycopg or sqlite3 connection",
        )
    return ForeignConnection(given, dialect)
