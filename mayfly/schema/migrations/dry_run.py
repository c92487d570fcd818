"""What a migration would do: each statement with its table, the rows of the table, and what the statement blocks."""

import re
from typing import NamedTuple

from sqlalchemy import Connection, text

from mayfly.format import plural

MAX_COUNTED = 10_000
NOT_SHOWN = re.compile(r"(--.*|BEGIN|COMMIT)?;?")  # between the statements
TABLE = re.compile(
    r"(?:CREATE TABLE(?: IF NOT EXISTS)?|ALTER TABLE|INSERT INTO|UPDATE|DELETE FROM|DROP TABLE(?: IF EXISTS)?"
    r"|CREATE (?:UNIQUE )?INDEX .*? ON) (\w+)",
    re.DOTALL,
)
CAPPED_COUNT = "SELECT COUNT(*) FROM (SELECT 1 FROM {} LIMIT {}) AS counted"
# Differs because each server has its own statistics, and SQLite has none.
STATISTICS = {
    "postgresql": "SELECT reltuples FROM pg_class WHERE oid = to_regclass('{}')",
    "mysql": "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{}'",
}
NO_LOCK = "blocks nothing"
ROWS_LOCK = "locks the rows that it changes until the migration is committed"
BRIEF_LOCK = "blocks reads and writes for a moment"
WRITE_LOCK = "blocks writes while it runs"
FULL_LOCK = "blocks reads and writes while it runs"
UNKNOWN_LOCK = "may block writes while it runs: the server chooses the algorithm"
# By the words in a statement; the first that are found apply. Differs because each server has locks of its own.
MYSQL_LOCKS = (
    ("ALGORITHM=INSTANT", BRIEF_LOCK),
    ("LOCK=NONE", "blocks reads and writes for a moment at its end"),
    ("CREATE TABLE", NO_LOCK),
    ("ALTER TABLE", UNKNOWN_LOCK),
    ("INDEX", UNKNOWN_LOCK),
)
POSTGRES_LOCKS = (
    ("INDEX CONCURRENTLY", "blocks nothing; waits for older transactions on the table"),
    ("CREATE TABLE", NO_LOCK),
    ("VALIDATE CONSTRAINT", NO_LOCK),
    ("ADD COLUMN", BRIEF_LOCK),
    ("DROP COLUMN", BRIEF_LOCK),
    ("CREATE INDEX", WRITE_LOCK),
    ("CREATE UNIQUE INDEX", WRITE_LOCK),
    ("ALTER TABLE", FULL_LOCK),
    ("DROP", FULL_LOCK),
)
LOCKS = {"mysql": MYSQL_LOCKS, "mariadb": MYSQL_LOCKS, "postgresql": POSTGRES_LOCKS}
SQLITE_LOCK = "blocks writes of the whole file until the migration is committed"


class PlannedStatement(NamedTuple):
    sql: str
    table: str | None
    rows: str | None  # None: the table does not exist yet
    lock: str

    @property
    def lines(self) -> str:
        about = f"{self.table}, {self.rows}" if self.rows else f"{self.table or 'no table'}, new"
        return f"{self.sql}\n  -- {about}: {self.lock}"


class Buffer:
    """The file to which Alembic prints: one write per statement."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def write(self, printed: str) -> None:
        statement = printed.strip()
        if not NOT_SHOWN.fullmatch(statement):
            self.statements.append(statement)

    def flush(self) -> None:
        """Alembic calls it after each write."""


def planned(connection: Connection, sql: str) -> PlannedStatement:
    found = TABLE.match(sql)
    table = found and found[1]
    rows = _rows(connection, table) if table and connection.dialect.has_table(connection, table) else None
    return PlannedStatement(sql, table, rows, lock_of(sql, connection.dialect.name))


def lock_of(sql: str, dialect_name: str) -> str:
    """Pure. For statements of this package and of applications."""
    if dialect_name not in LOCKS:
        return SQLITE_LOCK
    first_line = sql.partition("\n")[0]
    return next((lock for words, lock in LOCKS[dialect_name] if words in first_line), ROWS_LOCK)


def _rows(connection: Connection, table: str) -> str:
    """Counted if there are few, otherwise what the server's statistics say."""
    counted = connection.execute(text(CAPPED_COUNT.format(table, MAX_COUNTED + 1))).scalar_one()
    if counted <= MAX_COUNTED:
        return plural(counted, "row")
    statement = STATISTICS.get(connection.dialect.name)
    estimate = connection.execute(text(statement.format(table))).scalar() if statement else None
    if estimate is None or estimate <= MAX_COUNTED:  # never analysed
        return f"more than {MAX_COUNTED:,} rows"
    return f"about {estimate:,.0f} rows by the server's statistics"
