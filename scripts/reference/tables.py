"""docs/reference/tables.md, from mayfly/schema/metadata.py."""

from typing import Any

from sqlalchemy import Column, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import psycopg

from mayfly.schema.column_types import utc_now
from mayfly.schema.metadata import metadata
from scripts.reference.markdown import GENERATED, paragraph, table

HEAD = f"""# Tables

{GENERATED}
All times are UTC with microseconds. Types are those of PostgreSQL and, where they differ, of MySQL and MariaDB.
`mayfly_jobs` is public: any program may insert rows. The other tables may be read, and are written by Mayfly only.
"""


def page(_current: str) -> str:
    return HEAD + "".join(_chapter(each) for each in metadata.sorted_tables)


def _chapter(described: Table) -> str:
    rows = [
        (
            f"`{column.name}`{' (key)' if column.primary_key else ''}",
            _type(column),
            _default(column),
            column.doc or "",
        )
        for column in described.columns
    ]
    columns = table(("column", "type", "default", "meaning"), rows)
    return f"\n## {described.name}\n\n{paragraph(described.info['meaning'])}\n\n{columns}"


def _type(column: Column[Any]) -> str:
    names = [column.type.compile(dialect()).lower() for dialect in (psycopg.dialect, mysql.dialect)]
    return " / ".join(dict.fromkeys(names))


def _default(column: Column[Any]) -> str:
    if column.server_default is None:
        return "" if not column.nullable else "NULL"
    value = column.server_default.arg  # type: ignore[attr-defined]
    return "now" if isinstance(value, utc_now) else f"`{getattr(value, 'text', value)}`"
