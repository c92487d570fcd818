"""The only package that asks which database this is. Each difference says why it is one."""

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

# Each in a module of its own: whoever uses one database should not import the others' drivers.
DIALECTS = {"sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql", "postgresql": "postgres"}
_PACKAGES = {"pymysql": "mysql", "psycopg": "postgresql", "sqlite3": "sqlite"}


def dialect_named(name: str) -> Dialect:
    """As SQLAlchemy names it, which has two names for the same where an application writes mariadb+pymysql://."""
    return cast(Dialect, import_module(f"mayfly.db.dialects.{DIALECTS[name]}").DIALECT)


def dialect_of_url(url: str) -> Dialect:
    return dialect_named(url.partition(":")[0].partition("+")[0])


def dialect_of_driver(connection: object) -> Dialect | None:
    """The dialect of an application's own driver connection, or None when it is not one we know."""
    name = _PACKAGES.get(type(connection).__module__.partition(".")[0])
    return dialect_named(name) if name else None


def embedded_file(url: str) -> Path | None:
    """Where the database is a file of ours; None where it is a server's matter."""
    scheme, _, path = url.partition(":///")
    # Differs because SQLite has no server that would have created it.
    return Path(path.partition("?")[0]) if scheme.startswith("sqlite") else None
