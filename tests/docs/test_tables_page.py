"""docs/reference/tables.md is generated from mayfly/schema/metadata.py.

UPDATE_REFERENCE=1 pytest tests/docs/test_tables_page.py rewrites it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Table
from sqlalchemy.dialects import mysql
from sqlalchemy.dialects.postgresql import psycopg

from mayfly.schema.column_types import utc_now
from mayfly.schema.metadata import metadata

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tables.md"
HEAD = """# Tables

Generated from `mayfly/schema/metadata.py`; `UPDATE_REFERENCE=1 pytest tests/docs/test_tables_page.py` writes it anew.

All times are UTC with microseconds. Types are those of PostgreSQL and, where they differ, of MySQL and MariaDB.
`mayfly_jobs` is public: any program may insert rows. The other tables may be read, and are written by Mayfly only.
"""


def test_the_page_of_the_tables_is_current() -> None:
    """Every table, and every column with type, default and meaning."""
    page = "\n".join([HEAD, *(line for table in metadata.sorted_tables for line in chapter(table))])

    if os.environ.get("UPDATE_REFERENCE"):
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "UPDATE_REFERENCE=1 writes it anew"


def chapter(table: Table) -> Iterator[str]:
    yield f"## {table.name}\n\n{table.info['meaning']}\n"
    yield "| column | type | default | meaning |\n| --- | --- | --- | --- |"
    for column in table.columns:
        key = " (key)" if column.primary_key else ""
        yield f"| `{column.name}`{key} | {type_of(column)} | {default_of(column)} | {column.doc} |"
    yield ""


def type_of(column: Column[Any]) -> str:
    names = [column.type.compile(dialect()).lower() for dialect in (psycopg.dialect, mysql.dialect)]
    return " / ".join(dict.fromkeys(names))


def default_of(column: Column[Any]) -> str:
    if column.server_default is None:
        return "" if not column.nullable else "NULL"
    value = column.server_default.arg  # type: ignore[attr-defined]
    return "now" if isinstance(value, utc_now) else f"`{getattr(value, 'text', value)}`"
