"""The prospects of a test, by plain SQL."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from handlers.prospects.tables import FIELDS

NOW = "2026-05-04 12:00:00.000000"


def rows(url: str, query: str, **parameters: Any) -> Sequence[Any]:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        return connection.execute(text(query), parameters).all()


def execute(url: str, statement: str, **parameters: Any) -> None:
    with create_engine(url, poolclass=NullPool).begin() as connection:
        connection.execute(text(statement), parameters)


def prospects(url: str, columns: str = "id, email, name, company", where: str = "merged_into IS NULL") -> list[Any]:
    return [tuple(row) for row in rows(url, f"SELECT {columns} FROM app_prospects WHERE {where} ORDER BY id")]


def insert(url: str, people: Iterable[Mapping[str, Any]]) -> list[int]:
    """As an application without match keys would; returns the ids."""
    columns = (*FIELDS, "created_at", "updated_at")
    values = ", ".join(f":{name}" for name in columns)
    empty = dict.fromkeys(FIELDS) | {"created_at": NOW, "updated_at": NOW}
    given = [{**empty, **each} for each in people]
    with create_engine(url, poolclass=NullPool).begin() as connection:
        before = connection.execute(text("SELECT COALESCE(MAX(id), 0) FROM app_prospects")).scalar_one()
        connection.execute(text(f"INSERT INTO app_prospects ({', '.join(columns)}) VALUES ({values})"), given)
        found = connection.execute(text("SELECT id FROM app_prospects WHERE id > :id ORDER BY id"), {"id": before})
        return list(found.scalars())
