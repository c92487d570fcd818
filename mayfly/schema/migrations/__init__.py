"""Bring a database to this version of the schema. Only this package imports Alembic."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Dialect, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mayfly.db import dialects
from mayfly.db.dialects import dialect_of_url
from mayfly.db.errors import explain
from mayfly.errors import BadDatabaseOption, SchemaUnknown
from mayfly.schema.tables import VERSION, VERSION_TABLE
from mayfly.schema.version import STORED_VERSION, Version, refuse_newer
from mayfly.settings.values import mask_password


def migrate(url: str) -> tuple[Version, Version]:
    """Run the missing migrations; the versions before and after. Two hosts at once wait for each other."""
    with connected(url) as connection:
        before = stored_version(connection)  # in the transaction that migrates: on SQLite that is the lock
        refuse_newer(before)
        if before != VERSION:
            config = script_config(version_table=VERSION_TABLE, connection=connection)
            if before is not None and before not in known_versions(config):
                raise SchemaUnknown(before, VERSION)
            command.upgrade(config, "head")
            connection.commit()
    return before, VERSION


def migration_sql(url: str) -> None:
    """Print the statements, for operators who do not let programs change tables."""
    config = script_config(version_table=VERSION_TABLE, dialect_name=make_url(url).get_backend_name())
    command.upgrade(config, "head", sql=True)


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """The only migration of this database at a time; database errors become sentences."""
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
    """One migration at a time, over all hosts. Before any table exists, only a named lock is possible."""
    # Differs because each server has another statement for it, and SQLite's BEGIN IMMEDIATE is such a lock already.
    if connection.dialect.name == "mysql":
        while not connection.execute(text("SELECT GET_LOCK('mayfly_migrate', 60)")).scalar_one():
            connection.commit()
        connection.commit()
    elif connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_lock(hashtext('mayfly_migrate'))"))
        connection.commit()
    yield


def _engine(url: str) -> Engine:
    """Without Mayfly's statement timeouts: altering a large table takes as long as it takes."""
    dialect = dialect_of_url(url)
    if dialect.name == "sqlite":
        engine = create_engine(url, poolclass=NullPool, creator=lambda: dialect.connect(url))
        listen(engine, "begin", lambda connection: _begin_on_sqlite(dialect, connection))
        return engine
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True)
    except ValueError as error:
        raise BadDatabaseOption(str(error)) from error
    listen(engine, "do_connect", _connect)
    return engine


def _begin_on_sqlite(dialect: dialects.Dialect, connection: Connection) -> None:
    """A new file is not in WAL mode yet: its first COMMIT has to wait for readers, not to fail at once."""
    raw: Any = connection.connection.dbapi_connection
    dialect.begin(raw)
    raw.set_busy_timeout(True)


def _connect(dialect: Dialect, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Options that the driver refuses come from the part of DATABASE_URL after the question mark."""
    try:
        return dialect.connect(*arguments, **options)
    except (TypeError, ValueError, OSError, dialect.loaded_dbapi.ProgrammingError) as error:
        raise BadDatabaseOption(str(error).strip()) from error


def script_config(**attributes: object) -> Config:
    config = Config(attributes=attributes)
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return config


def known_versions(config: Config) -> set[str]:
    return {each.revision for each in ScriptDirectory.from_config(config).walk_revisions()}
