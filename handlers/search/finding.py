"""Search the index that is current."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from handlers.search.engines import engine_of
from handlers.search.tables import current_table
from handlers.search.words import snippet, words_of
from mayfly import MayflyError

MOST_WORDS = 20


class Hit(NamedTuple):
    kind: str
    id: int
    title: str
    snippet: str


Read = Callable[[Callable[[Any], Any]], Any]  # Job.read, or that of a database


def find(read: Read, text: str, most: int = 20) -> list[Hit] | None:
    """The entries that have all the words, the best first; None where no index was built yet."""
    words = list(dict.fromkeys(words_of(text)))[:MOST_WORDS]
    table = read(current_table)
    if table is None:
        return None
    try:
        rows = _search(read, table, words, most)
    except MayflyError:
        newer = read(current_table)  # it was swapped out and dropped since we looked: the next one is there
        if newer in (None, table):
            raise
        rows = _search(read, newer, words, most)
    return [Hit(kind, int(id), title, snippet(body or title, words)) for kind, id, title, body in rows]


def _search(read: Read, table: str, words: list[str], most: int) -> Sequence[tuple[Any, ...]]:
    def search(connection: Any) -> Sequence[tuple[Any, ...]]:
        engine = engine_of(connection)
        asked = {"query": engine.query(words), "most": most}
        found: Sequence[tuple[Any, ...]] = connection.execute(engine.search.format(table=table), asked).all()
        return found

    return read(search) if words else ()
