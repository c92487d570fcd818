"""SQLAlchemy, imported on first use: handlers are imported within the window of a lane, and most do not need it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import TextClause


def text(sql: str) -> "TextClause":
    import sqlalchemy

    return sqlalchemy.text(sql)
