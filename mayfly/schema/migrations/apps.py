"""The tables that handlers bring along, with versions of their own: `mayfly migrate --app`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import make_url

from mayfly.errors import AppSchemaUnknown
from mayfly.registry import packages_named
from mayfly.schema.migrations import connected, script_config
from mayfly.schema.version import Version

NAMES_THEM = "__migrations__"  # in a package: the folder of its versions


class AppTables(NamedTuple):
    """Those of one package."""

    package: str
    versions: Path

    @property
    def version_table(self) -> str:
        return f"app_{self.package.replace('.', '_')}_version"

    def config(self, **attributes: object) -> Config:
        """The environment is Mayfly's own, the versions are theirs."""
        config = script_config(version_table=self.version_table, **attributes)
        config.set_main_option("path_separator", "newline")  # a path may have spaces and colons
        config.set_main_option("version_locations", str(self.versions).replace("%", "%%"))
        return config


def app_tables(modules: Sequence[str]) -> Iterator[AppTables]:
    """Of all packages that the settings name, or installed distributions bring."""
    for package in packages_named(modules):
        folder = getattr(package, NAMES_THEM, None)
        if folder is not None and package.__file__ is not None:
            yield AppTables(package.__name__, Path(package.__file__).parent / folder)


def versions_of(tables: AppTables) -> tuple[Version, set[str]]:
    """The newest version that the package knows, and all of them."""
    script = ScriptDirectory.from_config(tables.config())
    return script.get_current_head(), {each.revision for each in script.walk_revisions()}


def migrate_app(url: str, tables: AppTables) -> tuple[Version, Version]:
    """Run what is missing; the versions before and after. Two hosts at once wait for each other."""
    with connected(url) as connection:
        before: Version = None
        if connection.dialect.has_table(connection, tables.version_table):
            stored = connection.execute(text(f"SELECT version_num FROM {tables.version_table}"))
            before = stored.scalar_one_or_none()
        config = tables.config(connection=connection)
        script = ScriptDirectory.from_config(config)
        if before is not None and before not in {each.revision for each in script.walk_revisions()}:
            raise AppSchemaUnknown(tables.package, before)
        after = script.get_current_head()
        if before != after:
            command.upgrade(config, "head")
            connection.commit()
    return before, after


def app_migration_sql(url: str, tables: AppTables) -> None:
    command.upgrade(tables.config(dialect_name=make_url(url).get_backend_name()), "head", sql=True)
