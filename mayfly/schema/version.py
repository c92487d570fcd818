"""Which version of the schema a database has: one cheap SELECT, and the sentences about the answer."""

from mayfly.db.connection import Connection
from mayfly.errors import SchemaMismatch, SchemaMissing
from mayfly.schema.tables import VERSION, VERSION_TABLE

Version = str | None  # None: no tables yet

STORED_VERSION = f"SELECT version_num FROM {VERSION_TABLE}"


def require_version(connection: Connection) -> None:
    """Refuse to work on tables that this code does not know. A missing table is an error of its own."""
    stored = connection.execute(STORED_VERSION).scalar()
    if stored is None:
        raise SchemaMissing
    refuse_newer(stored)
    if stored != VERSION:
        raise SchemaMismatch(stored, VERSION)


def refuse_newer(stored: Version) -> None:
    if stored is not None and int(stored) > int(VERSION):
        raise SchemaMismatch(stored, VERSION)
