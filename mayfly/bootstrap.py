"""Open what the settings name: the database, which is created on first use if it is a file, and the handlers."""

import sys
from pathlib import Path
from typing import Any

from mayfly.db.database import Database
from mayfly.db.dialects import embedded_file
from mayfly.errors import DatabaseUnopenable
from mayfly.job import Job
from mayfly.monitoring.hooks import on_dead_handler
from mayfly.registry import Handler, Registry, load_handlers
from mayfly.schedules import COMMAND
from mayfly.settings import Settings


def open_database(settings: Settings, connections: int = 1) -> Database:
    url = settings.database_url.get_secret_value()
    create_embedded(url)
    return Database(url, connections)


def create_embedded(url: str) -> None:
    """A new SQLite file gets its tables at once; the tables of a server are only created by `mayfly migrate`."""
    path = missing_embedded(url)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnopenable(url, str(error.strerror)) from error
    from mayfly.schema.migrations import migrate  # Alembic: slower to import than a whole cycle

    migrate(url)


def missing_embedded(url: str) -> Path | None:
    """The SQLite file that open_database() would create. Commands that must not write check this first."""
    path = embedded_file(url)
    return path if path is not None and not (path.exists() and path.stat().st_size) else None


def load_registry(settings: Settings) -> Registry:
    """The handlers that the settings name, and Mayfly's own two."""
    add_home_to_path(settings)
    return load_handlers(settings.handlers).plus(command_handler(settings)).plus(on_dead_handler(settings))


def command_handler(settings: Settings) -> Handler:
    """Of the commands in schedule files. Every runner has it, so it imports nothing before the first such job."""

    def command(job: Job) -> dict[str, Any]:
        from mayfly.schedules.command import run_scheduled_command  # cronsim and subprocess: few runners need them

        return run_scheduled_command(job, settings)

    return Handler(COMMAND, command, ack="each")


def add_home_to_path(settings: Settings) -> None:
    """Handlers are in MAYFLY_HOME or installed; cron starts Mayfly in another directory."""
    home = str(settings.home)
    if home not in sys.path:
        sys.path.insert(0, home)
