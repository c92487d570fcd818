"""Search the current index."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from handlers.search.fulltext import fulltext_of
from handlers.search.tables import current_table
from handlers.search.tokenizer import snippet, words_of
from mayfly import MayflyError

MAX_WORDS = 20

T = TypeVar("T")


class Hit(NamedTuple):
    kind: str
    id: int
    title: str
    snippet: str


class Read(Protocol):
    """`job.read`, or any other function that calls `work` with a SQLAlchemy connection."""

    def __call__(self, work: Callable[[Connection], T], /) -> T: ...


def find(read: Read, wanted: str, limit: int = 20) -> list[Hit] | None:
    """Return the entries that contain all the words, best first; None if no index was built yet."""
    words = list(dict.fromkeys(words_of(wanted)))[:MAX_WORDS]
    table = read(current_table)
    if table is None:
        return None
    try:
        rows = _search(read, table, words, limit)
    except (MayflyError, DBAPIError):
        newer = read(current_table)  # the table may have been swapped out and dropped in the meantime
        if newer is None or newer == table:
            raise
        rows = _search(read, newer, words, limit)
    return [Hit(kind, int(id), title, snippet(body or title, words)) for kind, id, title, body in rows]


def _search(read: Read, table: str, words: list[str], limit: int) -> Sequence[Any]:
    def search(connection: Connection) -> Sequence[Any]:
        index = fulltext_of(connection)
        values = {"query": index.query(words), "limit": limit}
        return connection.execute(text(index.search.format(table=table)), values).all()

    return read(search) if words else ()
