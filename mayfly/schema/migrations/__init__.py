"""Bring a database to this version of the schema. The only importer of Alembic."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Dialect, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.db.dialects import dialect_of_url
from mayfly.db.errors import explain
from mayfly.errors import BadDatabaseOption
from mayfly.schema.tables import VERSION, VERSION_TABLE
from mayfly.schema.version import STORED_VERSION, Version, refuse_newer
from mayfly.settings.values import mask_password


def migrate(url: str) -> tuple[Version, Version]:
    """Run what is missing; the versions before and after. Two hosts at once wait for each other."""
    with connected(url) as connection:
        before = stored_version(connection)  # in the transaction that migrates: on SQLite that is the lock
        refuse_newer(before)
        if before != VERSION:
            command.upgrade(script_config(version_table=VERSION_TABLE, connection=connection), "head")
            connection.commit()
    return before, VERSION


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """The only one who migrates this database, whatever is wrong with it said in a sentence."""
    try:
        with _engine(url).connect() as connection, migration_lock(connection):
            yield connection
    except DBAPIError as error:
        raise explain(error.orig or error, dialect_of_url(url), mask_password(url)) or error from error


def stored_version(connection: Connection) -> Version:
    """Of a database that may have no tables yet."""
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    return connection.execute(text(STORED_VERSION)).scalar_one_or_none()


@contextmanager
def migration_lock(connection: Connection) -> Iterator[None]:
    """One migration at a time, over all hosts. Here, before any table exists, a named lock must serve."""
    # Differs because each server names such a lock otherwise, and SQLite's BEGIN IMMEDIATE is one already.
    if connection.dialect.name == "mysql":
        while not connection.execute(text("SELECT GET_LOCK('mayfly_migrate', 60)")).scalar_one():
            connection.commit()
        connection.commit()
    elif connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_lock(hashtext('mayfly_migrate'))"))
        connection.commit()
    yield


def _engine(url: str) -> Engine:
    """With none of our time-outs: to change a large table may take its time."""
    dialect = dialect_of_url(url)
    if dialect.name == "sqlite":
        engine = create_engine(url, poolclass=NullPool, creator=lambda: dialect.connect(url))
        listen(engine, "begin", lambda connection: dialect.begin(connection.connection.dbapi_connection))
        return engine
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    except ValueError as error:
        raise BadDatabaseOption(str(error)) from error
    listen(engine, "do_connect", _connect)
    return engine


def _connect(dialect: Dialect, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What the driver cannot make sense of is what somebody wrote behind the ? of DATABASE_URL."""
    try:
        return dialect.connect(*arguments, **options)
    except (TypeError, ValueError, OSError, dialect.loaded_dbapi.ProgrammingError) as error:
        raise BadDatabaseOption(str(error).strip()) from error


def migration_sql(url: str) -> None:
    """Print the statements for somebody who may not let programs change tables."""
    config = script_config(version_table=VERSION_TABLE, dialect_name=make_url(url).get_backend_name())
    command.upgrade(config, "head", sql=True)


def script_config(**attributes: object) -> Config:
    config = Config(attributes=attributes)
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config
