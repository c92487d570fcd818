"""Open what the settings name: the database, created on first use where it is a file, and the handlers."""

import sys
from pathlib import Path

from mayfly.db.database import Database
from mayfly.db.dialects import embedded_file
from mayfly.errors import DatabaseUnopenable
from mayfly.monitoring.hooks import on_dead_handler
from mayfly.registry import Registry, load_handlers
from mayfly.schedules.command import command_handler
from mayfly.settings import Settings


def open_database(settings: Settings, connections: int = 1) -> Database:
    url = settings.database_url.get_secret_value()
    create_embedded(url)
    return Database(url, connections)


def create_embedded(url: str) -> None:
    """A new SQLite file gets its tables by itself; a server's database never without being asked."""
    path = missing_embedded(url)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnopenable(url, str(error.strerror)) from error
    from mayfly.schema.migrations import migrate  # Alembic costs more to import than all the rest of a cycle

    migrate(url)


def missing_embedded(url: str) -> Path | None:
    """The SQLite file that opening would fill with tables; those who may only look ask first."""
    path = embedded_file(url)
    return path if path is not None and not (path.exists() and path.stat().st_size) else None


def load_registry(settings: Settings) -> Registry:
    """Those that are named, and two of our own."""
    add_home_to_path(settings)
    return load_handlers(settings.handlers).plus(command_handler(settings)).plus(on_dead_handler(settings))


def add_home_to_path(settings: Settings) -> None:
    """Handlers live in MAYFLY_HOME or are installed; cron starts us elsewhere."""
    home = str(settings.home)
    if home not in sys.path:
        sys.path.insert(0, home)
