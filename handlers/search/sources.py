"""The kinds of entries, each with the query that reads its rows in the order of their ids."""

from typing import Any, NamedTuple

from sqlalchemy import Select, func, select

from handlers.boards.tables import boards, posts
from handlers.prospects.tables import prospects

MAX_TEXT_LENGTH = 20_000  # characters of a post that are indexed


class SearchSource(NamedTuple):
    """Its query returns id, title and texts."""

    kind: str
    rows: Select[Any]

    def page(self, after: int, limit: int) -> Select[Any]:
        id_column = self.rows.selected_columns.id
        return self.rows.where(id_column > after).order_by(id_column).limit(limit)


SOURCES = (
    SearchSource("board", select(boards.c.id, boards.c.title)),
    SearchSource(  # drafts and withdrawn posts are not searched
        "post",
        select(posts.c.id, boards.c.title, func.substr(posts.c.body, 1, MAX_TEXT_LENGTH))
        .select_from(posts.outerjoin(boards, boards.c.id == posts.c.board_id))
        .where(posts.c.state == "published"),
    ),
    SearchSource(  # a merged prospect is not searched; the one it was merged into is
        "prospect",
        select(
            prospects.c.id,
            func.coalesce(prospects.c.name, prospects.c.email),
            prospects.c.company,
            prospects.c.title,
            prospects.c.email,
        ).where(prospects.c.merged_into.is_(None)),
    ),
)
