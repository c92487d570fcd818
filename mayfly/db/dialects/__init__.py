"""The only package that knows which database it is. Every difference has a comment `Differs because …`."""

from importlib import import_module
from pathlib import Path
from typing import cast

from mayfly.db.dialects.base import PLAIN, Dialect, ErrorKind, Unit, Values, utc_from_driver, utc_text

__all__ = [
    "DIALECTS",
    "PLAIN",
    "Dialect",
    "ErrorKind",
    "Unit",
    "Values",
    "dialect_named",
    "dialect_of_driver",
    "dialect_of_url",
    "embedded_file",
    "utc_from_driver",
    "utc_text",
]

# One module each, so that only the driver in use is imported.
DIALECTS = {"sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql", "postgresql": "postgres"}
_PACKAGES = {"pymysql": "mysql", "psycopg": "postgresql", "sqlite3": "sqlite"}


def dialect_named(name: str) -> Dialect:
    """By SQLAlchemy's name; it has a second one for URLs that begin with mariadb+pymysql://."""
    return cast(Dialect, import_module(f"mayfly.db.dialects.{DIALECTS[name]}").DIALECT)


def dialect_of_url(url: str) -> Dialect:
    return dialect_named(url.partition(":")[0].partition("+")[0])


def dialect_of_driver(connection: object) -> Dialect | None:
    """The dialect of an application's own driver connection, or None for an unknown driver."""
    name = _PACKAGES.get(type(connection).__module__.partition(".")[0])
    return dialect_named(name) if name else None


def embedded_file(url: str) -> Path | None:
    """The path of an SQLite database; None for a server."""
    scheme, _, path = url.partition(":///")
    # Differs because only SQLite's database is a file of our own.
    return Path(path.partition("?")[0]) if scheme.startswith("sqlite") else None
