"""Compare the version of a database's tables with the version that this code needs."""

from mayfly.db.connection import Connection
from mayfly.errors import SchemaMismatch, SchemaMissing
from mayfly.schema.tables import VERSION, VERSION_TABLE

Version = str | None  # None: no tables yet

STORED_VERSION = f"SELECT version_num FROM {VERSION_TABLE}"


def require_version(connection: Connection) -> None:
    """Refuse tables of another version. A missing version table is an error of its own, see mayfly.db.errors."""
    stored = connection.execute(STORED_VERSION).scalar()
    if stored is None:
        raise SchemaMissing
    refuse_newer(stored)
    if stored != VERSION:
        raise SchemaMismatch(stored, VERSION)


def refuse_newer(stored: Version) -> None:
    """Versions are four digits, so that they compare as text; anything else is not older than ours."""
    if stored is not None and stored > VERSION:
        raise SchemaMismatch(stored, VERSION)
