"""What is searched: each kind with the statement that reads a slice of it, in the order of its ids."""

from typing import NamedTuple

TEXT_LENGTH = 20_000  # characters of each that are indexed


class Source(NamedTuple):
    """Its statement gives id, title and texts of those after `:after`, `:most` at a time."""

    kind: str
    slice: str


# Drafts, and what was withdrawn, are nobody's to find.
SOURCES = (
    Source("board", "SELECT id, title FROM app_boards WHERE id > :after ORDER BY id LIMIT :most"),
    Source(
        "post",
        "SELECT app_posts.id, app_boards.title, SUBSTR(app_posts.body, 1, :length)"
        " FROM app_posts LEFT JOIN app_boards ON app_boards.id = app_posts.board_id"
        " WHERE app_posts.id > :after AND app_posts.state = 'published' ORDER BY app_posts.id LIMIT :most",
    ),
    Source(  # merged ones are found as whom they were merged into
        "prospect",
        "SELECT id, COALESCE(name, email), company, title, email FROM app_prospects"
        " WHERE id > :after AND merged_into IS NULL ORDER BY id LIMIT :most",
    ),
)
