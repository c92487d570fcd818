"""Use one of our connections through SQLAlchemy: what a handler gets from job.transaction()."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection as Lent
from sqlalchemy import Engine, create_engine
from sqlalchemy.event import listen
from sqlalchemy.pool import StaticPool

from mayfly.db.connection import Connection


@contextmanager
def lend(connection: Connection, url: str) -> Iterator[Lent]:
    """In a transaction that is committed at the end."""
    if connection.engine is None:
        connection.engine = _engine(connection, url)
    with connection.engine.begin() as lent:
        try:
            yield lent
        except Exception:
            raise
        except BaseException as interruption:
            # A half-read answer may be pending: without this, SQLAlchemy would send its ROLLBACK after it.
            lent.invalidate(interruption)
            raise


def _engine(connection: Connection, url: str) -> Engine:
    """On this connection, which SQLAlchemy neither closes nor resets."""
    engine = create_engine(
        url,
        creator=lambda: connection.raw,
        poolclass=StaticPool,
        pool_reset_on_return=None,
        hide_parameters=True,  # an error's text goes to the log and to last_error: it must not quote payloads
    )
    listen(engine, "begin", lambda _lent: connection.dialect.begin(connection.raw))
    engine.connect().close()  # runs SQLAlchemy's initial queries and rolls back, before our transaction begins
    return engine
