"""Create and update tables: Mayfly's own, and those of applications. Only this package imports Alembic.

Each package with tables has versions of its own; `mayfly migrate --app` migrates those of applications.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from alembic import command, op
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Computed, Connection, Dialect, Engine, Index, Table, create_engine, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateIndex, CreateTable

from mayfly.db import dialects
from mayfly.db.database import explain
from mayfly.db.dialects import dialect_of_url
from mayfly.errors import BadDatabaseOption, SchemaUnknown
from mayfly.schema.column_types import is_mysql
from mayfly.schema.tables import VERSION_TABLE, Version, refuse_newer
from mayfly.settings.values import mask_password

HERE = Path(__file__).parent
# Without the timeouts that the role may have: see docs/postgresql.md.
POSTGRES_LOCK = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SELECT pg_advisory_xact_lock(hashtext('mayfly_migrate'))",
)
MIGRATIONS_ATTRIBUTE = "__migrations__"  # of an application's package: the folder of its migration scripts


class PackageTables(NamedTuple):
    """The tables of one package, and the folder of their migrations."""

    package: str
    folder: Path
    version_table: str

    def config(self, **attributes: object) -> Config:
        """Mayfly's Alembic environment with the package's scripts."""
        config = Config(attributes={"version_table": self.version_table, **attributes})
        config.set_main_option("script_location", str(HERE).replace("%", "%%"))
        config.set_main_option("path_separator", "newline")  # a path may have spaces and colons
        config.set_main_option("version_locations", str(self.folder).replace("%", "%%"))
        return config

    def versions(self) -> tuple[Version, set[str]]:
        """The newest version that the package knows, and all of them."""
        script = ScriptDirectory.from_config(self.config())
        return script.get_current_head(), {each.revision for each in script.walk_revisions()}


OWN = PackageTables("mayfly", HERE / "versions", VERSION_TABLE)


def app_tables(packages: Iterable[ModuleType]) -> Iterator[PackageTables]:
    """The tables of the packages that have any."""
    for package in packages:
        folder = getattr(package, MIGRATIONS_ATTRIBUTE, None)
        if folder is not None and package.__file__ is not None:
            name = package.__name__
            path = Path(package.__file__).parent / folder
            yield PackageTables(name, path, f"app_{name.replace('.', '_')}_version")


def migrate(url: str, tables: PackageTables = OWN) -> tuple[Version, Version]:
    """Run the missing migrations; returns the versions before and after. Of two hosts, the second waits."""
    newest, known = tables.versions()
    with _connected(url) as connection:
        # In the transaction that migrates, which is the migration lock on SQLite.
        before = _stored_version(connection, tables.version_table)
        if tables is OWN:
            refuse_newer(before)
        if before is not None and before not in known:
            raise SchemaUnknown(tables.package, before)
        if before != newest:
            command.upgrade(tables.config(connection=connection), "head")
            connection.commit()
    return before, newest


def migration_sql(url: str, tables: PackageTables = OWN) -> None:
    """Print the statements, for operators who do not let programs change tables."""
    command.upgrade(tables.config(dialect_name=make_url(url).get_backend_name()), "head", sql=True)


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """Holds the migration lock; errors of the driver become errors of Mayfly."""
    try:
        with _engine(url).connect() as connection, _migration_lock(connection):
            yield connection
    except DBAPIError as error:
        raise explain(error.orig or error, dialect_of_url(url), mask_password(url)) or error from error


def _stored_version(connection: Connection, version_table: str) -> Version:
    """None if the database has no tables yet."""
    if not connection.dialect.has_table(connection, version_table):
        return None
    return connection.execute(text(f"SELECT version_num FROM {version_table}")).scalar_one_or_none()


@contextmanager
def _migration_lock(connection: Connection) -> Iterator[None]:
    """One migration at a time, over all hosts. Before any table exists, only a named lock is possible."""
    # Differs because each server has its own statement for it, and SQLite's BEGIN IMMEDIATE is such a lock already.
    if connection.dialect.name == "mysql":
        while not connection.execute(text("SELECT GET_LOCK('mayfly_migrate', 60)")).scalar_one():
            connection.commit()
        connection.commit()
    elif connection.dialect.name == "postgresql":
        # Held by the transaction that migrates. Behind PgBouncer another client would get a session with its lock.
        for statement in POSTGRES_LOCK:
            connection.execute(text(statement))
    yield


def _engine(url: str) -> Engine:
    """Without Mayfly's statement timeouts: altering a large table may take long."""
    dialect = dialect_of_url(url)
    if dialect.name == "sqlite":
        engine = create_engine(url, poolclass=NullPool, creator=lambda: dialect.connect(url))
        listen(engine, "begin", lambda connection: _begin_on_sqlite(dialect, connection))
        return engine
    # A prepared statement would stay in a session of PgBouncer, and collide with one of the same name.
    connect_args = {"prepare_threshold": None} if dialect.name == "postgresql" else {}
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=connect_args)
    except ValueError as error:
        raise BadDatabaseOption(str(error)) from error
    listen(engine, "do_connect", _connect)
    return engine


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


# --- for migration scripts --------------------------------------------------------------------------------


def create_described(table: Table) -> None:
    """Create a table of mayfly/schema/metadata.py with its indexes.

    MySQL commits each DDL statement by itself, so this skips what a killed migration has already created.
    """
    op.execute(CreateTable(table, if_not_exists=True))
    inspector = None if op.get_context().as_sql else inspect(op.get_bind())
    known = {each["name"] for each in inspector.get_indexes(table.name)} if inspector else set()
    columns = {each["name"] for each in inspector.get_columns(table.name)} if inspector else set()
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        if index.name not in known:
            _create_described_index(table, index, columns)


def _create_described_index(table: Table, index: Index, known_columns: set[str]) -> None:
    # Differs because MySQL and MariaDB cannot index only some rows of a table.
    if "generated_column" not in index.info or not is_mysql(op.get_context().dialect):
        op.execute(CreateIndex(index))
        return
    # A unique index of a generated column that is NULL where the condition is false.
    name, condition = index.info["generated_column"]
    [key] = index.columns
    if name not in known_columns:
        case = f"CASE WHEN {condition} THEN {key.name} END"
        op.add_column(table.name, Column(name, key.type, Computed(case, persisted=True)))
    op.create_index(str(index.name), table.name, [name], unique=True)
