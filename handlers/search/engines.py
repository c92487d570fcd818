"""The full-text index of each database: how it is made, filled and asked.

A word and its place are all that is asked of them; what a word is, is decided by handlers.search.words.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Engine(NamedTuple):
    make: tuple[str, ...]  # statements that can be repeated; {table} is its name
    add: str  # a row, over one that is already there
    search: str
    word: str  # as it is indexed
    wanted: str  # as it is asked for
    joint: str  # between those that must all be there

    def indexed(self, words: Sequence[str]) -> str:
        return " ".join(self.word.format(word) for word in words)

    def query(self, words: Sequence[str]) -> str:
        return self.joint.join(self.wanted.format(self.word.format(word)) for word in words)


# Differs because it keeps no key of ours: the number of a row is made of its kind and its id.
FTS5 = Engine(
    (
        "CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5(kind UNINDEXED, id UNINDEXED, title UNINDEXED,"
        " body UNINDEXED, words, tokenize = 'unicode61 remove_diacritics 0')",
    ),
    "INSERT OR REPLACE INTO {table} (rowid, kind, id, title, body, words)"
    " VALUES (:number, :kind, :id, :title, :body, :words)",
    "SELECT kind, id, title, body FROM {table} WHERE {table} MATCH :query ORDER BY rank, kind, id LIMIT :most",
    "{}",
    '"{}"',
    " ",
)
# Differs because it leaves out words of less than three letters, and some that are common in English: no word is
# either of that with two strokes behind it.
FULLTEXT = Engine(
    (
        "CREATE TABLE IF NOT EXISTS {table} (kind VARCHAR(16) NOT NULL, id BIGINT NOT NULL, title TEXT NOT NULL,"
        " body MEDIUMTEXT NOT NULL, words MEDIUMTEXT NOT NULL, PRIMARY KEY (kind, id), FULLTEXT KEY words (words))"
        " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    ),
    "INSERT IGNORE INTO {table} (kind, id, title, body, words) VALUES (:kind, :id, :title, :body, :words)",
    "SELECT kind, id, title, body FROM {table} WHERE MATCH(words) AGAINST(:query IN BOOLEAN MODE)"
    " ORDER BY MATCH(words) AGAINST(:query IN BOOLEAN MODE) DESC, kind, id LIMIT :most",
    "{}__",
    "+{}",
    " ",
)
# Differs because its parser has opinions about what a word is: it is given the words themselves.
TSVECTOR = Engine(
    (
        "CREATE TABLE IF NOT EXISTS {table} (kind VARCHAR(16) NOT NULL, id BIGINT NOT NULL, title TEXT NOT NULL,"
        " body TEXT NOT NULL, words TSVECTOR NOT NULL, PRIMARY KEY (kind, id))",
        "CREATE INDEX IF NOT EXISTS {table}_words ON {table} USING gin (words)",
    ),
    "INSERT INTO {table} (kind, id, title, body, words)"
    " VALUES (:kind, :id, :title, :body, array_to_tsvector(string_to_array(CAST(:words AS text), ' ')))"
    " ON CONFLICT (kind, id) DO NOTHING",
    "SELECT kind, id, title, body FROM {table} WHERE words @@ CAST(:query AS tsquery)"
    " ORDER BY ts_rank(words, CAST(:query AS tsquery)) DESC, kind, id LIMIT :most",
    "{}",
    "'{}'",
    " & ",
)
ENGINES = {"sqlite": FTS5, "mysql": FULLTEXT, "postgresql": TSVECTOR}


def engine_of(connection: Any) -> Engine:
    return ENGINES[connection.dialect.name]
