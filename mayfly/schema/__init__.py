"""The tables: columns, version and migrations. Also opens the database that has them."""

from pathlib import Path
from typing import TYPE_CHECKING

from mayfly.db.database import Database
from mayfly.db.dialects import embedded_file
from mayfly.errors import DatabaseUnopenable
from mayfly.schema.tables import require_version

if TYPE_CHECKING:
    from mayfly.settings import Settings


def open_database(settings: "Settings", connections: int = 1) -> Database:
    """Its first use fails if the tables have another version than this code."""
    url = settings.database_url.get_secret_value()
    create_embedded(url)
    return Database(url, connections, require_version)


def create_embedded(url: str) -> None:
    """A new SQLite file gets its tables at once; the tables of a server are only created by `mayfly migrate`."""
    path = missing_embedded(url)
    if path is None:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnopenable(url, str(error.strerror)) from error
    from mayfly.schema.migrations import migrate  # Alembic: slower to import than a whole cycle

    migrate(url)


def missing_embedded(url: str) -> Path | None:
    """The SQLite file that open_database() would create. Commands that must not write check this first."""
    path = embedded_file(url)
    return path if path is not None and not (path.exists() and path.stat().st_size) else None
