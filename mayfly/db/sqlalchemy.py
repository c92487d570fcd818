"""SQLAlchemy connections on the library's own connections: what job.read, job.write and job.transaction() give."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection as Lent
from sqlalchemy import Engine, create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from mayfly.db.connection import Connection
from mayfly.db.dialects import Dialect, Unit


@contextmanager
def lend(connection: Connection, url: str, unit: Unit = Unit.TRANSACTION) -> Iterator[Lent]:
    """Begin a transaction on it and commit it at the end."""
    if connection.engine is None:
        connection.engine = _engine(connection, url)
    connection.dialect.begin(connection.raw, unit)
    with connection.engine.begin() as lent:
        try:
            yield lent
        except Exception:
            raise
        except BaseException as interruption:
            # The driver may not have read the whole reply: without this, SQLAlchemy would send a ROLLBACK behind it.
            lent.invalidate(interruption)
            raise


@contextmanager
def driver_errors() -> Iterator[None]:
    """Raise the driver's error instead of SQLAlchemy's wrapper: the former decides whether work is repeated."""
    try:
        yield
    except DBAPIError as error:
        raise error.orig or error from None


def _engine(connection: Connection, url: str) -> Engine:
    """An engine whose pool is this one connection. The library alone closes it, and begins its transactions."""
    engine = create_engine(
        url,
        creator=lambda: connection.raw,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        hide_parameters=True,  # an error's text goes to the log and to last_error: it must not quote payloads
    )
    listen(engine, "before_cursor_execute", _TimesInUtc(connection.dialect), retval=True)
    engine.connect().close()  # its own first queries, with a rollback: before our transaction begins
    return engine


class _TimesInUtc:
    """Bind an aware datetime such as `job.now` as the tables store it, where a statement gives it no column type.

    sqlite3 and PyMySQL would drop the zone or store a text that cannot be compared with the others.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def __call__(
        self, _lent: Lent, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> tuple[str, Any]:
        return statement, self._bound(parameters)

    def _bound(self, value: Any) -> Any:
        if isinstance(value, datetime):
            return value if value.tzinfo is None else self._dialect.bound(value)
        if isinstance(value, dict):
            return {name: self._bound(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(self._bound, value))
        return value
