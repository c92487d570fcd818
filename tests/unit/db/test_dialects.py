"""Differences between databases that can be tested without one."""

import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pymysql
import pytest

from mayfly.db.dialects import ROWS_PER_STATEMENT, ErrorKind, dialect_named, dialect_of_url
from mayfly.db.dialects.postgres import session_options
from mayfly.errors import BadDatabaseOption
from mayfly.queue.claim import due_statement
from mayfly.queue.insert import keeping_keys

SERVERS = {
    "mysql": ("mysql+pymysql://u@db.example/d", pymysql),
    "mariadb": ("mariadb+pymysql://u@db.example/d", pymysql),
    "postgresql": ("postgresql+psycopg://u@db.example/d", psycopg),
}


class SqliteError(sqlite3.OperationalError):
    """As sqlite3 raises them."""

    def __init__(self, words: str, name: str) -> None:
        super().__init__(words)
        self.sqlite_errorname = name


# --- statements -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("mysql", "INSERT IGNORE INTO"),
        ("mariadb", "INSERT IGNORE INTO"),
        ("postgresql", "ON CONFLICT (unique_key) WHERE"),
        ("sqlite", "ON CONFLICT (unique_key) WHERE"),
    ],
)
def test_an_insert_with_a_held_key_is_ignored_in_every_dialect(name: str, clause: str) -> None:
    """An engine with mariadb+pymysql:// is MySQL too, under another name."""
    before, after = keeping_keys(dialect_named(name))

    assert clause in f"INSERT {before}INTO mayfly_jobs{after}"


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("mysql", "ON DUPLICATE KEY UPDATE"),
        ("mariadb", "ON DUPLICATE KEY UPDATE"),
        ("postgresql", "ON CONFLICT (lane) DO UPDATE"),
        ("sqlite", "ON CONFLICT (lane) DO UPDATE"),
    ],
)
def test_an_upsert_is_written_in_every_dialect(name: str, clause: str) -> None:
    """Repeating it changes nothing."""
    assert clause in dialect_named(name).upsert("mayfly_lanes", ("lane",), ["lane", "passed_over"])


class Cursor:
    """Of a driver: keeps what it is passed."""

    def __init__(self) -> None:
        self.executed: list[tuple[str, int]] = []  # the statement and the number of its values
        self.executed_many: list[tuple[str, int]] = []

    def execute(self, statement: str, values: list[Any]) -> None:
        self.executed.append((statement, len(values)))

    def executemany(self, statement: str, rows: list[Any]) -> None:
        self.executed_many.append((statement, len(rows)))


def test_postgres_inserts_many_rows_by_one_statement() -> None:
    """Its driver would send one statement per row; the parameters of the rest of the statement stay as they are."""
    cursor, dialect = Cursor(), dialect_named("postgresql")
    rows = [{"lane": str(number), "passed_over": number} for number in range(ROWS_PER_STATEMENT + 2)]

    dialect.execute_many(cursor, dialect.upsert("mayfly_lanes", ("lane",), rows[0]), rows)

    (first, many), (last, few) = cursor.executed
    assert (many, few, cursor.executed_many) == (2 * ROWS_PER_STATEMENT, 4, [])
    assert first.count("(%s, %s)") == ROWS_PER_STATEMENT
    assert last == (
        "INSERT INTO mayfly_lanes (lane, passed_over) VALUES (%s, %s), (%s, %s)"
        " ON CONFLICT (lane) DO UPDATE SET passed_over = excluded.passed_over"
    )


@pytest.mark.parametrize(
    "statement",
    ["UPDATE mayfly_lanes SET passed_over = :number", "INSERT INTO mayfly_lanes (lane, set_by) VALUES (:lane, 'a')"],
)
def test_postgres_executes_other_statements_for_each_row(statement: str) -> None:
    """Only plain rows of parameters can be combined."""
    cursor = Cursor()

    dialect_named("postgresql").execute_many(cursor, statement, [{"number": 1, "lane": "a"}] * 2)

    assert ([rows for _, rows in cursor.executed_many], cursor.executed) == ([2], [])


@pytest.mark.parametrize(
    ("name", "clock"),
    [
        ("mysql", "UTC_TIMESTAMP(6)"),
        ("mariadb", "UTC_TIMESTAMP(6)"),
        ("postgresql", "clock_timestamp()"),
        ("sqlite", "strftime("),
    ],
)
def test_every_database_is_queried_for_its_clock(name: str, clock: str) -> None:
    """With all its digits, in UTC."""
    assert clock in dialect_named(name).utc_now


@pytest.mark.parametrize(
    ("name", "locks"), [("mysql", True), ("mariadb", True), ("postgresql", True), ("sqlite", False)]
)
def test_rows_are_locked_if_the_database_has_row_locks(name: str, locks: bool) -> None:
    """Rows locked by another claim are skipped, not waited for."""
    assert due_statement(dialect_named(name)).endswith(" FOR UPDATE SKIP LOCKED") is locks


def test_options_of_the_url_come_after_ours() -> None:
    """The server applies the last one; a name with a space stays one value."""
    options = session_options("my shop", "-csearch_path=jobs -c jit=on")

    assert options.startswith("-c application_name=my\\ shop -c timezone=UTC -c statement_timeout=10s ")
    assert options.endswith(" -csearch_path=jobs -c jit=on")


@pytest.mark.parametrize("name", SERVERS)
def test_connecting_has_a_timeout(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut network must not block a runner: connecting takes at most three seconds."""
    url, driver = SERVERS[name]
    asked: dict[str, Any] = {}

    def connect(**options: Any) -> None:
        asked.update(options)
        raise TypeError("the driver was asked, and that is all this wants to know")

    monkeypatch.setattr(driver, "connect", connect)

    with pytest.raises(BadDatabaseOption):
        dialect_of_url(url).connect(url)

    assert asked["connect_timeout"] == 3


# --- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    ("statement", "rendered"),
    [
        ("SELECT :a, :b_1", "SELECT %(a)s, %(b_1)s"),
        ("(:a,:a)", "(%(a)s,%(a)s)"),
        ("payload::json", "payload::json"),
        (":run_at ::timestamptz[]", "%(run_at)s ::timestamptz[]"),
        (":a::int", "%(a)s::int"),
        ("id % 7 = :rest", "id %% 7 = %(rest)s"),
        ("type LIKE 'a%'", "type LIKE 'a%%'"),
        ("run_at < '2026-05-04 12:30:00'", "run_at < '2026-05-04 12:30:00'"),
        ("'schedule:x'", "'schedule:x'"),
        ("{ids of id}", "{ids of id}"),
    ],
)
def test_parameters_are_rendered_in_the_style_of_the_driver(name: str, statement: str, rendered: str) -> None:
    """Casts, times and words with a colon are not parameters, and a % is literal."""
    assert dialect_named(name).rendered(statement) == rendered


def test_the_parameter_style_of_sqlite_is_ours() -> None:
    """The statement is unchanged, also with a %."""
    statement = "SELECT strftime('%H:%M', :at) % 7"

    assert dialect_named("sqlite").rendered(statement) == statement


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mysql", "2026-05-04 10:00:00"),
        ("postgresql", datetime(2026, 5, 4, 10, 0, tzinfo=UTC)),
        ("sqlite", "2026-05-04 10:00:00.000000"),
    ],
)
def test_times_are_bound_in_utc(name: str, expected: object) -> None:
    """From any zone; SQLite compares texts, so each one has all its digits."""
    noon = datetime(2026, 5, 4, 12, 0, tzinfo=timezone(timedelta(hours=2)))

    assert dialect_named(name).bound(noon) == expected


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (1213, ErrorKind.REPEAT),  # deadlock
        (1062, ErrorKind.TAKEN),  # duplicate entry
        (1205, ErrorKind.REPEAT),  # lock wait
        (1020, ErrorKind.REPEAT),  # record has changed
        (2003, ErrorKind.AWAY),
        (2013, ErrorKind.AWAY),  # lost during a query
        (1040, ErrorKind.CROWDED),  # too many connections
        (1226, ErrorKind.CROWDED),  # of one user
        (1047, ErrorKind.DETACHED),  # a Galera node without its cluster
        (1045, ErrorKind.REFUSED),
        (1049, ErrorKind.REFUSED),
        (1114, ErrorKind.FULL),
        (1290, ErrorKind.STANDBY),  # read-only
        (1146, ErrorKind.NO_TABLE),
        (1064, ErrorKind.OTHER),  # a bug of ours
    ],
)
def test_errors_of_mysql_are_classified_by_number(name: str, code: int, meaning: ErrorKind) -> None:
    """Each has one meaning."""
    error = pymysql.err.OperationalError(code, "server error")

    assert dialect_named(name).error_kind(error) is meaning


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("40001", ErrorKind.REPEAT),
        ("23505", ErrorKind.TAKEN),
        ("40P01", ErrorKind.REPEAT),
        ("55P03", ErrorKind.REPEAT),
        ("57P01", ErrorKind.AWAY),
        ("08006", ErrorKind.AWAY),
        ("53300", ErrorKind.CROWDED),
        ("28P01", ErrorKind.REFUSED),
        ("3D000", ErrorKind.REFUSED),
        ("53100", ErrorKind.FULL),
        ("25006", ErrorKind.STANDBY),
        ("42P01", ErrorKind.NO_TABLE),
        ("42601", ErrorKind.OTHER),
    ],
)
def test_errors_of_postgres_are_classified_by_sqlstate(state: str, meaning: ErrorKind) -> None:
    """Each has one meaning."""
    error = psycopg.errors.lookup(state)("server error")

    assert dialect_named("postgresql").error_kind(error) is meaning


@pytest.mark.parametrize(
    ("words", "kind", "meaning"),
    [
        ("connection refused", psycopg.OperationalError, ErrorKind.AWAY),
        ('FATAL: password authentication failed for user "x"', psycopg.OperationalError, ErrorKind.REFUSED),
        ('FATAL: database "x" does not exist', psycopg.OperationalError, ErrorKind.REFUSED),
        ("no pg_hba.conf entry for host", psycopg.OperationalError, ErrorKind.REFUSED),
        ("FATAL: no such database: x", psycopg.OperationalError, ErrorKind.REFUSED),
        ("FATAL: no more connections allowed (max_client_conn)", psycopg.OperationalError, ErrorKind.CROWDED),
        ("the query has 0 placeholders", psycopg.ProgrammingError, ErrorKind.OTHER),
    ],
)
def test_errors_of_postgres_while_connecting_are_classified_by_text(
    words: str, kind: type[psycopg.Error], meaning: ErrorKind
) -> None:
    """They have no SQLSTATE."""
    assert dialect_named("postgresql").error_kind(kind(words)) is meaning


@pytest.mark.parametrize(
    ("words", "name", "meaning"),
    [
        ("database is locked", "SQLITE_BUSY", ErrorKind.REPEAT),
        ("database is locked", "SQLITE_BUSY_SNAPSHOT", ErrorKind.REPEAT),
        ("unable to open database file", "SQLITE_CANTOPEN", ErrorKind.UNOPENABLE),
        ("file is not a database", "SQLITE_NOTADB", ErrorKind.UNOPENABLE),
        ("database or disk is full", "SQLITE_FULL", ErrorKind.FULL),
        ("attempt to write a readonly database", "SQLITE_READONLY_DBMOVED", ErrorKind.FULL),
        ("no such table: mayfly_jobs", "SQLITE_ERROR", ErrorKind.NO_TABLE),
        ("near SELEC: syntax error", "SQLITE_ERROR", ErrorKind.OTHER),
    ],
)
def test_errors_of_sqlite_are_classified_by_name(words: str, name: str, meaning: ErrorKind) -> None:
    """Extended names begin with the plain ones."""
    assert dialect_named("sqlite").error_kind(SqliteError(words, name)) is meaning
