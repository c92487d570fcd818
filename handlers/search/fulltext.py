"""The full-text index of each database: how it is created, filled and queried.

The statements are plain SQL: neither SQLAlchemy nor standard SQL has full-text indexes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection


class FullTextIndex(NamedTuple):
    create: tuple[str, ...]  # idempotent; {table} is its name
    insert: str  # an existing row is kept, or replaced by the same row
    search: str
    indexed_word: str
    queried_word: str
    separator: str  # between words that must all match

    def indexed(self, words: Sequence[str]) -> str:
        return " ".join(self.indexed_word.format(word) for word in words)

    def query(self, words: Sequence[str]) -> str:
        return self.separator.join(self.queried_word.format(self.indexed_word.format(word)) for word in words)


# SQLite: an FTS5 table has no primary key, so the rowid is computed from kind and id.
FTS5 = FullTextIndex(
    (
        "CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5(kind UNINDEXED, id UNINDEXED, title UNINDEXED,"
        " body UNINDEXED, words, tokenize = 'unicode61 remove_diacritics 0')",
    ),
    "INSERT OR REPLACE INTO {table} (rowid, kind, id, title, body, words)"
    " VALUES (:number, :kind, :id, :title, :body, :words)",
    "SELECT kind, id, title, body FROM {table} WHERE {table} MATCH :query ORDER BY rank, kind, id LIMIT :limit",
    "{}",
    '"{}"',
    " ",
)
# MySQL does not index words shorter than three letters, nor stop words. Two appended underscores avoid both.
FULLTEXT = FullTextIndex(
    (
        "CREATE TABLE IF NOT EXISTS {table} (kind VARCHAR(16) NOT NULL, id BIGINT NOT NULL, title TEXT NOT NULL,"
        " body MEDIUMTEXT NOT NULL, words MEDIUMTEXT NOT NULL, PRIMARY KEY (kind, id), FULLTEXT KEY words (words))"
        " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    ),
    "INSERT IGNORE INTO {table} (kind, id, title, body, words) VALUES (:kind, :id, :title, :body, :words)",
    "SELECT kind, id, title, body FROM {table} WHERE MATCH(words) AGAINST(:query IN BOOLEAN MODE)"
    " ORDER BY MATCH(words) AGAINST(:query IN BOOLEAN MODE) DESC, kind, id LIMIT :limit",
    "{}__",
    "+{}",
    " ",
)
# PostgreSQL: the vector is built from our words, without the database's parser.
TSVECTOR = FullTextIndex(
    (
        "CREATE TABLE IF NOT EXISTS {table} (kind VARCHAR(16) NOT NULL, id BIGINT NOT NULL, title TEXT NOT NULL,"
        " body TEXT NOT NULL, words TSVECTOR NOT NULL, PRIMARY KEY (kind, id))",
        "CREATE INDEX IF NOT EXISTS {table}_words ON {table} USING gin (words)",
    ),
    "INSERT INTO {table} (kind, id, title, body, words)"
    " VALUES (:kind, :id, :title, :body, array_to_tsvector(string_to_array(CAST(:words AS text), ' ')))"
    " ON CONFLICT (kind, id) DO NOTHING",
    "SELECT kind, id, title, body FROM {table} WHERE words @@ CAST(:query AS tsquery)"
    " ORDER BY ts_rank(words, CAST(:query AS tsquery)) DESC, kind, id LIMIT :limit",
    "{}",
    "'{}'",
    " & ",
)
INDEXES = {"sqlite": FTS5, "mysql": FULLTEXT, "mariadb": FULLTEXT, "postgresql": TSVECTOR}


def fulltext_of(connection: Connection) -> FullTextIndex:
    return INDEXES[connection.dialect.name]
