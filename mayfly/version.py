"""Which version of the schema a database has: one cheap SELECT, and the sentences about the answer."""

from typing import Any

from sqlalchemy import Connection, Select, column, select, table

from mayfly.errors import SchemaMissing, SchemaNewer, SchemaOlder
from mayfly.schema import VERSION, VERSION_TABLE

Version = str | None  # None: no tables yet


def stored_version(connection: Connection) -> Version:
    """Only migrations and doctor may ask a database that has no tables yet."""
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    return connection.execute(version_statement()).scalar_one_or_none()


def require_version(connection: Connection) -> None:
    """Refuse to work on tables that this code does not know. A missing table is an error of its own."""
    stored = connection.execute(version_statement()).scalar_one_or_none()
    if stored is None:
        raise SchemaMissing
    refuse_newer(stored)
    if stored != VERSION:
        raise SchemaOlder(stored, VERSION)


def refuse_newer(stored: Version) -> None:
    if stored is not None and int(stored) > int(VERSION):
        raise SchemaNewer(stored, VERSION)


def version_statement() -> Select[Any]:
    return select(column("version_num")).select_from(table(VERSION_TABLE))
