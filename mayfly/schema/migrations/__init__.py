"""Create and update tables: Mayfly's own, and those of applications. Only this package imports Alembic.

Each package with tables has versions of its own; `mayfly migrate --app` migrates those of applications.
"""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import DBAPIError

from mayfly.clock import monotonic, pause_between
from mayfly.db.dialects import ErrorKind, dialect_named, dialect_of_url, reason_of
from mayfly.errors import OldCodeRuns, SchemaUnknown, TablesBusy
from mayfly.format import format_duration
from mayfly.schema import missing_embedded
from mayfly.schema.column_types import utc_now
from mayfly.schema.metadata import cycles, runners
from mayfly.schema.migrations.dry_run import Buffer, PlannedStatement, planned
from mayfly.schema.migrations.session import RETRY_SECONDS, connected, migration_lock
from mayfly.schema.tables import VERSION_TABLE, Version, is_usable, oldest_usable, refuse_newer, version_number

HERE = Path(__file__).parent
MAX_LOCK_WAIT_SECONDS = 600.0
REPEATED = (ErrorKind.REPEAT, ErrorKind.DETACHED)  # DETACHED also while a backup has paused a Galera node
MAX_CYCLE = timedelta(minutes=3)  # from the start of a dispatcher to its end, with LINGER and a late cron
MIGRATIONS_ATTRIBUTE = "__migrations__"  # of an application's package: the folder of its migration scripts


class PackageTables(NamedTuple):
    """The tables of one package, and the folder of their migrations."""

    package: str
    folder: Path
    version_table: str

    @property
    def are_own(self) -> bool:
        return self.version_table == VERSION_TABLE

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
    with connected(url) as connection, migration_lock(connection):
        before = _stored_version(connection, tables.version_table)
        if before is not None and before not in known:
            _refuse_unusable(tables, before, known)
            return before, before
        if before != newest:
            _refuse_old_code(connection, tables, before, newest)
            _upgrade(connection, tables)
    return before, newest


def planned_statements(url: str, tables: PackageTables = OWN) -> list[PlannedStatement]:
    """What migrate() would do now. Creates no file, and takes no lock of a server."""
    _newest, known = tables.versions()
    with connected("sqlite://" if missing_embedded(url) else url) as connection:
        before = _stored_version(connection, tables.version_table)
        if before is not None and before not in known:
            _refuse_unusable(tables, before, known)
            return []
        buffer = Buffer()
        config = tables.config(connection=connection, dialect_name=dialect_of_url(url).name, output_buffer=buffer)
        command.upgrade(config, f"{before or 'base'}:head", sql=True)
        return [planned(connection, each) for each in buffer.statements]


def migration_sql(url: str, tables: PackageTables = OWN) -> None:
    """Print the statements, for operators who do not let programs change tables."""
    command.upgrade(tables.config(dialect_name=dialect_of_url(url).name), "head", sql=True)


def _refuse_unusable(tables: PackageTables, stored: str, known: set[str]) -> None:
    """Tables that newer code has migrated, unless this code can use them too."""
    if is_usable(stored, known):
        return
    if tables.are_own:
        refuse_newer(stored)
    raise SchemaUnknown(tables.package, stored)


def _refuse_old_code(connection: Connection, tables: PackageTables, before: Version, newest: Version) -> None:
    """A migration that takes away what older code uses must not run while that code does."""
    if not tables.are_own or before is None or newest is None:
        return
    now = connection.execute(select(utc_now())).scalar_one()
    is_live = select(runners.c.cycle_id).where(runners.c.finished_at.is_(None), runners.c.lease_until > now)
    found = connection.execute(
        select(cycles.c.host)
        .where(cycles.c.schema_version < oldest_usable(newest))
        .where((cycles.c.started_at > now - MAX_CYCLE) | cycles.c.id.in_(is_live))
        .distinct()
    )
    if hosts := sorted(found.scalars()):
        raise OldCodeRuns(version_number(newest), oldest_usable(newest), hosts, format_duration(MAX_CYCLE))


def _upgrade(connection: Connection, tables: PackageTables) -> None:
    """Repeated while another session keeps a lock: a migration that was cut can be run again."""
    until = monotonic() + MAX_LOCK_WAIT_SECONDS
    while True:
        # Differs because the transaction is the migration lock on SQLite. On the others each migration has its own.
        if connection.dialect.name != "sqlite":
            connection.commit()
        try:
            command.upgrade(tables.config(connection=connection), "head")
            return connection.commit()
        except DBAPIError as error:
            connection.rollback()
            cause = error.orig or error
            if dialect_named(connection.dialect.name).error_kind(cause) not in REPEATED:
                raise
            if monotonic() > until:
                raise TablesBusy(MAX_LOCK_WAIT_SECONDS, reason_of(cause)) from error
        pause_between(*RETRY_SECONDS)


def _stored_version(connection: Connection, version_table: str) -> Version:
    """None if the database has no tables yet."""
    if not connection.dialect.has_table(connection, version_table):
        return None
    return connection.execute(text(f"SELECT version_num FROM {version_table}")).scalar_one_or_none()
