"""The session of a migration: its timeouts, and the lock by which one host migrates at a time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.clock import pause_between
from mayfly.db import dialects
from mayfly.db.database import explain
from mayfly.db.dialects import dialect_of_url
from mayfly.db.hosts import writable_url
from mayfly.errors import BadDatabaseOption
from mayfly.settings.values import mask_password

# A statement that waits for the lock of a table lets everything else wait behind it: it gives up soon.
LOCK_TIMEOUT_SECONDS = 2
RETRY_SECONDS = (1.0, 3.0)  # until the next attempt
# The role may have other timeouts, see docs/reference/settings.md#postgresql. Also as options of the session, since a
# statement outside of a transaction has no SET LOCAL.
POSTGRES_OPTIONS = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
POSTGRES_TRANSACTION = (
    "SET LOCAL statement_timeout = 0",
    f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
# Waiting hosts ask again and again: CREATE INDEX CONCURRENTLY waits for every statement that runs.
POSTGRES_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('mayfly_migrate'))"
MYSQL_LOCK = f"SELECT GET_LOCK('mayfly_migrate', {LOCK_TIMEOUT_SECONDS})"


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Errors of the driver become errors of Mayfly."""
    try:
        with _engine(writable_url(url)).connect() as connection:
            yield connection
    except DBAPIError as error:
        raise explain(error.orig or error, dialect_of_url(url), mask_password(url)) or error from error


@contextmanager
def migration_lock(connection: Connection) -> Iterator[None]:
    """One migration at a time, over all hosts. Before any table exists, only a named lock is possible."""
    # Differs because each server has its own statement for it, and SQLite's BEGIN IMMEDIATE is such a lock already.
    if connection.dialect.name == "mysql":
        while not connection.execute(text(MYSQL_LOCK)).scalar_one():
            connection.commit()
        connection.commit()
        yield
    elif connection.dialect.name == "postgresql":
        # Held by a transaction: behind PgBouncer another client would get a session with its lock. By one of its own,
        # as some statements of migrations run outside of any transaction.
        with connection.engine.connect() as holder:
            while not holder.execute(text(POSTGRES_LOCK)).scalar_one():
                holder.rollback()
                pause_between(*RETRY_SECONDS)
            yield
    else:
        yield


def _engine(url: str) -> Engine:
    """Without Mayfly's statement timeouts: altering a large table may take long."""
    dialect = dialect_of_url(url)
    if dialect.name == "sqlite":
        engine = create_engine(url, poolclass=NullPool, creator=lambda: dialect.connect(url))
        listen(engine, "begin", lambda connection: _begin_on_sqlite(dialect, connection))
        return engine
    try:
        engine = create_engine(
            url, poolclass=NullPool, hide_parameters=True, connect_args=_session_options(dialect, url)
        )
    except ValueError as error:
        raise BadDatabaseOption(str(error)) from error
    listen(engine, "do_connect", _connect)
    if dialect.name == "postgresql":
        listen(engine, "begin", _begin_on_postgres)
    return engine


def _session_options(dialect: dialects.Dialect, url: str) -> dict[str, Any]:
    # Differs because each driver has its own way to set a session.
    if dialect.name != "postgresql":
        return {"init_command": f"SET SESSION lock_wait_timeout = {LOCK_TIMEOUT_SECONDS}"}
    given = make_url(url).query.get("options", "")
    # A prepared statement would stay in a session of PgBouncer, and collide with one of the same name.
    return {"prepare_threshold": None, "options": f"{POSTGRES_OPTIONS} {given}".strip()}


def _begin_on_postgres(connection: Connection) -> None:
    for statement in POSTGRES_TRANSACTION:
        connection.exec_driver_sql(statement)


def _begin_on_sqlite(dialect: dialects.Dialect, connection: Connection) -> None:
    """A new file is not in WAL mode yet: its first COMMIT must wait for readers instead of failing."""
    raw: Any = connection.connection.dbapi_connection
    dialect.begin(raw)
    raw.set_busy_timeout(True)


def _connect(dialect: Dialect, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """If the driver refuses an option, it is one after the question mark of DATABASE_URL."""
    try:
        return dialect.connect(*arguments, **options)
    except (TypeError, ValueError, OSError, dialect.loaded_dbapi.ProgrammingError) as error:
        raise BadDatabaseOption(str(error).strip()) from error
