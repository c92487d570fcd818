"""Turn a driver's error into a sentence for operators."""

import re

from mayfly.db.dialects import Dialect, ErrorKind
from mayfly.errors import (
    DatabaseAway,
    DatabaseBusy,
    DatabaseCrowded,
    DatabaseError,
    DatabaseFull,
    DatabaseRefused,
    DatabaseUnopenable,
    SchemaDamaged,
    SchemaMissing,
    TableMissing,
)

FIRST_TABLES = ("mayfly_jobs", "mayfly_version")  # read first: if one of them is missing, all are

# The messages of PostgreSQL, MySQL and SQLite; the name of the database or schema may precede the table's.
_NO_TABLE = re.compile(r"""(?:relation "|Table '|no such table: )(?:[^."']*\.)?(?P<name>[^."']+)""")


def explain(error: BaseException, dialect: Dialect, where: str, tries: int = 1) -> DatabaseError | None:
    """None for an unknown error."""
    reason = first_line(error)
    explained: dict[ErrorKind, DatabaseError] = {
        ErrorKind.REPEAT: DatabaseBusy(where, tries, reason),
        ErrorKind.AWAY: DatabaseAway(where, reason),
        ErrorKind.CROWDED: DatabaseCrowded(where, reason),
        ErrorKind.REFUSED: DatabaseRefused(where, reason),
        ErrorKind.UNOPENABLE: DatabaseUnopenable(where, reason),
        ErrorKind.FULL: DatabaseFull(where, reason),
        ErrorKind.NO_TABLE: _missing(reason),
    }
    return explained.get(dialect.error_kind(error))


def _missing(reason: str) -> DatabaseError:
    found = _NO_TABLE.search(reason)
    if found is None or found["name"] in FIRST_TABLES:
        return SchemaMissing()
    if found["name"].startswith("mayfly_"):
        return SchemaDamaged(found["name"])
    return TableMissing(found["name"])


def first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
