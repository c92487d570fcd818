"""Search the index that is current."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from handlers.search.engines import engine_of
from handlers.search.tables import current_table
from handlers.search.words import snippet, words_of
from mayfly import MayflyError

MOST_WORDS = 20
TRIES = 3


class Hit(NamedTuple):
    kind: str
    id: int
    title: str
    snippet: str


Read = Callable[[Callable[[Any], Any]], Any]  # Job.read, or a database's


def find(read: Read, text: str, most: int = 20) -> list[Hit] | None:
    """The entries that have all the words, the best first; None where no index was built yet."""
    words = list(dict.fromkeys(words_of(text)))[:MOST_WORDS]
    table = read(current_table)
    for left in range(TRIES - 1, -1, -1):
        if table is None or not words:
            return None if table is None else []
        try:
            rows: Sequence[Any] = read(lambda connection: _search(connection, table, words, most))  # noqa: B023
        except MayflyError:  # it was swapped out and dropped since we looked: the next one is there
            last, table = table, read(current_table)
            if not left or table == last:
                raise
        else:
            return [Hit(kind, int(id), title, snippet(body or title, words)) for kind, id, title, body in rows]
    raise AssertionError("not reached")


def _search(connection: Any, table: str, words: Sequence[str], most: int) -> Sequence[Any]:
    engine = engine_of(connection)
    asked = {"query": engine.query(words), "most": most}
    return list(connection.execute(engine.search.format(table=table), asked).all())
