"""SQLAlchemy on top of our connections, for job.read, job.write and job.transaction(); and applications' connections.

Importing SQLAlchemy takes 200 ms, so this module is only imported where it is needed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection as SqlConnection
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.event import listen
from sqlalchemy.pool import StaticPool

from mayfly.db.connection import NO_VALUES, Connection
from mayfly.db.dialects import Dialect, Unit, Values
from mayfly.settings.values import host_urls


@contextmanager
def begin_transaction(connection: Connection, url: str, unit: Unit = Unit.TRANSACTION) -> Iterator[SqlConnection]:
    """A SQLAlchemy connection on ours, in a transaction that is committed at the end of the block."""
    if connection.engine is None:
        connection.engine = _engine(connection, url)
    connection.dialect.begin(connection.raw, unit)
    with connection.engine.begin() as sql:
        try:
            yield sql
        except Exception:
            raise
        except BaseException as interruption:
            # The driver may not have read the whole reply: without this, SQLAlchemy would send a ROLLBACK now.
            sql.invalidate(interruption)
            raise


def _engine(connection: Connection, url: str) -> Engine:
    """An engine whose pool is this one connection. Only Mayfly closes it and begins its transactions."""
    engine = create_engine(
        host_urls(url)[0],  # only for its dialect
        creator=lambda: connection.raw,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        hide_parameters=True,  # error texts appear in the log and in last_error: they must not contain payloads
    )

    def bind_times(_sql: SqlConnection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        return statement, _in_utc(parameters, connection.dialect)

    listen(engine, "before_cursor_execute", bind_times, retval=True)
    engine.connect().close()  # runs SQLAlchemy's initial queries, with a rollback, before our transaction begins
    return engine


def _in_utc(value: Any, dialect: Dialect) -> Any:
    """Bind an aware datetime such as `job.now` as the tables store it, for statements without column types.

    sqlite3 and PyMySQL would drop the zone, or store a text that does not compare with other times.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo is None else dialect.bound(value)
    if isinstance(value, dict):
        return {name: _in_utc(each, dialect) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_in_utc(each, dialect) for each in value)
    return value


class ForeignConnection:
    """The methods of Connection that an insert needs, on a SQLAlchemy connection with any driver."""

    def __init__(self, given: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._given = given

    def execute(self, statement: str, values: Values = NO_VALUES) -> Any:
        return self._given.execute(text(statement), self.dialect.all_bound(values))

    def execute_rows(self, head: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rest: str) -> Any:
        statement = f"{head}({', '.join(f':{name}' for name in columns)}){rest}"
        named = (dict(zip(columns, row, strict=True)) for row in rows)
        return self._given.execute(text(statement), [self.dialect.all_bound(row) for row in named])
