"""What differs between databases, as far as it can be seen without one."""

import pymysql
import pytest
from sqlalchemy import Dialect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from mayfly import dialect
from mayfly.dialect import Trouble
from mayfly.jobs.enqueue import NewJob, insert_statement
from mayfly.schema import JOBS, jobs, lanes

URLS = {
    "sqlite": "sqlite://",
    "mysql": "mysql+pymysql://",
    "mariadb": "mariadb+pymysql://",
    "postgresql": "postgresql+psycopg://",
}


def make_dialect(name: str) -> Dialect:
    return make_url(URLS[name]).get_dialect()()


def make_error(original: BaseException, kind: type[DBAPIError] = OperationalError) -> DBAPIError:
    return kind("SELECT 1", {}, original)


class PostgresError(Exception):
    """As psycopg raises them."""

    def __init__(self, words: str, sqlstate: str | None) -> None:
        super().__init__(words)
        self.sqlstate = sqlstate


class SqliteError(Exception):
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
def test_a_held_key_is_left_alone_in_every_language(name: str, clause: str) -> None:
    """An engine made with mariadb+pymysql:// is a MySQL too, under a name of its own."""
    spoken = make_dialect(name)
    unique = NewJob("noop", "{}", "default", 5, 1, unique_key="order-7")

    assert clause in str(insert_statement(spoken, JOBS, unique).compile(dialect=spoken))


@pytest.mark.parametrize(
    ("name", "clause"),
    [
        ("mysql", "ON DUPLICATE KEY UPDATE"),
        ("mariadb", "ON DUPLICATE KEY UPDATE"),
        ("postgresql", "ON CONFLICT (lane) DO UPDATE"),
        ("sqlite", "ON CONFLICT (lane) DO UPDATE"),
    ],
)
def test_a_row_is_written_over_in_every_language(name: str, clause: str) -> None:
    """Repeating it changes nothing."""
    spoken = make_dialect(name)
    statement = dialect.upsert(spoken, lanes, ("lane",), ["lane", "passed_over"])

    assert clause in str(statement.compile(dialect=spoken))


@pytest.mark.parametrize(
    ("name", "clock"),
    [
        ("mysql", "UTC_TIMESTAMP(6)"),
        ("mariadb", "UTC_TIMESTAMP(6)"),
        ("postgresql", "clock_timestamp()"),
        ("sqlite", "strftime("),
    ],
)
def test_every_database_is_asked_for_its_clock(name: str, clock: str) -> None:
    """With all its digits, in UTC."""
    assert clock in str(select(dialect.utc_now()).compile(dialect=make_dialect(name)))


@pytest.mark.parametrize(
    ("name", "locks"), [("mysql", True), ("mariadb", True), ("postgresql", True), ("sqlite", False)]
)
def test_rows_are_locked_where_rows_can_be(name: str, locks: bool) -> None:
    """And those that another claim holds are skipped, never waited for."""
    statement = dialect.lock_rows(select(jobs.c.id))

    assert ("FOR UPDATE SKIP LOCKED" in str(statement.compile(dialect=make_dialect(name)))) is locks


@pytest.mark.parametrize("name", ["mysql", "mariadb", "postgresql"])
def test_no_connection_waits_for_ever(name: str) -> None:
    """A cut network must not hang a runner: to connect takes three seconds at most."""
    options = dialect.engine_options(make_url(URLS[name] + "u@db.example/d"), connections=1)

    assert options["connect_args"]["connect_timeout"] == 3
    assert options["isolation_level"] == "READ COMMITTED"


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        (1213, Trouble.REPEAT),  # deadlock
        (1205, Trouble.REPEAT),  # lock wait
        (1020, Trouble.REPEAT),  # record has changed
        (2003, Trouble.AWAY),
        (2013, Trouble.AWAY),  # lost during a query
        (1040, Trouble.AWAY),  # too many connections
        (1047, Trouble.AWAY),  # a Galera node without its cluster
        (1045, Trouble.REFUSED),
        (1049, Trouble.REFUSED),
        (1114, Trouble.FULL),
        (1290, Trouble.FULL),  # read-only
        (1146, Trouble.NO_TABLE),
        (1064, Trouble.OTHER),  # our own mistake
    ],
)
def test_mysqls_errors_are_known_by_number(name: str, code: int, meaning: Trouble) -> None:
    """Each means one thing to us."""
    error = make_error(pymysql.err.OperationalError(code, "said the server"))

    assert dialect.trouble(error, make_dialect(name)) is meaning


@pytest.mark.parametrize(
    ("state", "meaning"),
    [
        ("40001", Trouble.REPEAT),
        ("40P01", Trouble.REPEAT),
        ("55P03", Trouble.REPEAT),
        ("57P01", Trouble.AWAY),
        ("08006", Trouble.AWAY),
        ("53300", Trouble.AWAY),
        ("28P01", Trouble.REFUSED),
        ("3D000", Trouble.REFUSED),
        ("53100", Trouble.FULL),
        ("25006", Trouble.FULL),
        ("42P01", Trouble.NO_TABLE),
        ("42601", Trouble.OTHER),
    ],
)
def test_postgres_errors_are_known_by_state(state: str, meaning: Trouble) -> None:
    """Each means one thing to us."""
    error = make_error(PostgresError("said the server", state))

    assert dialect.trouble(error, make_dialect("postgresql")) is meaning


@pytest.mark.parametrize(
    ("words", "kind", "meaning"),
    [
        ("connection refused", OperationalError, Trouble.AWAY),
        ('FATAL: password authentication failed for user "x"', OperationalError, Trouble.REFUSED),
        ('FATAL: database "x" does not exist', OperationalError, Trouble.REFUSED),
        ("no pg_hba.conf entry for host", OperationalError, Trouble.REFUSED),
        ("the query has 0 placeholders", ProgrammingError, Trouble.OTHER),
    ],
)
def test_postgres_has_no_state_while_it_connects(words: str, kind: type[DBAPIError], meaning: Trouble) -> None:
    """Then its words must do."""
    error = make_error(PostgresError(words, None), kind)

    assert dialect.trouble(error, make_dialect("postgresql")) is meaning


@pytest.mark.parametrize(
    ("words", "name", "meaning"),
    [
        ("database is locked", "SQLITE_BUSY", Trouble.REPEAT),
        ("database is locked", "SQLITE_BUSY_SNAPSHOT", Trouble.REPEAT),
        ("unable to open database file", "SQLITE_CANTOPEN", Trouble.UNOPENABLE),
        ("file is not a database", "SQLITE_NOTADB", Trouble.UNOPENABLE),
        ("database or disk is full", "SQLITE_FULL", Trouble.FULL),
        ("attempt to write a readonly database", "SQLITE_READONLY_DBMOVED", Trouble.FULL),
        ("no such table: mayfly_jobs", "SQLITE_ERROR", Trouble.NO_TABLE),
        ("near SELEC: syntax error", "SQLITE_ERROR", Trouble.OTHER),
    ],
)
def test_sqlites_errors_are_known_by_name(words: str, name: str, meaning: Trouble) -> None:
    """Their extended names begin with the plain ones."""
    assert dialect.trouble(make_error(SqliteError(words, name)), make_dialect("sqlite")) is meaning
