"""What only some handlers need: each lane's are imported within its window, and most do without."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import TextClause


def text(sql: str) -> "TextClause":
    import sqlalchemy

    return sqlalchemy.text(sql)
