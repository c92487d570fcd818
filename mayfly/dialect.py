"""The only module that asks which database this is. Each branch says what differs and why."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Integer,
    Select,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.expression import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from mayfly.clock import monotonic, pause
from mayfly.errors import BadDatabaseOption, ServerTooOld

if TYPE_CHECKING:
    # What SQLAlchemy has for one database alone is imported where a statement for it is written: whoever uses one
    # database should not pay for the others, 20 ms of every cycle each.
    from sqlalchemy.dialects import mysql, postgresql, sqlite

CONNECT_SECONDS = 3
STATEMENT_SECONDS = 10  # PyMySQL's own default waits for ever on a cut link
LOCK_SECONDS = 5
WRITE_LOCK_PAUSE = (0.001, 0.003)  # seconds between two tries for SQLite's
IDLE_SECONDS = 90  # a dead client's session and its locks are gone after this

MYSQLS = ("mysql", "mariadb")

# Differs because SQLite counts up only in a column that is literally INTEGER.
Id = BigInteger().with_variant(Integer, "sqlite")


def is_mysql(dialect: Dialect) -> bool:
    # Differs because SQLAlchemy has a second name for it where an application writes mariadb+pymysql://.
    return dialect.name in MYSQLS


class LongText(TypeDecorator[str]):
    """Text without an end that anybody will meet."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because MySQL's TEXT ends at 64 KiB and a truncated traceback should still hold its last line.
        if is_mysql(dialect):
            from sqlalchemy.dialects.mysql import MEDIUMTEXT

            return dialect.type_descriptor(MEDIUMTEXT())
        return dialect.type_descriptor(Text())


class UtcDateTime(TypeDecorator[datetime]):
    """Aware UTC datetimes in Python, microseconds in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because PostgreSQL can keep an instant (a session in another zone still writes it right),
        # and MySQL's DATETIME drops fractions unless asked for them.
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True, precision=6))
        if is_mysql(dialect):
            from sqlalchemy.dialects import mysql

            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        from sqlalchemy.dialects import sqlite

        return dialect.type_descriptor(sqlite.DATETIME())  # type: ignore[no-untyped-call]

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        # Differs because the others keep no zone: they are given UTC without one.
        if value is None or dialect.name == "postgresql":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | str | None, _dialect: Dialect) -> datetime | None:
        return None if value is None else utc_from_driver(value)


def utc_from_driver(value: datetime | str) -> datetime:
    # Differs because the databases without zones are given UTC and return it without one, SQLite as a text.
    if isinstance(value, str):
        return datetime.fromisoformat(f"{value}+00:00")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class JsonText(TypeDecorator[str]):
    """JSON kept as the text that came in: parsed once, by us, and only where somebody looks."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # Differs because PostgreSQL's jsonb refuses \u0000 and its json does not; MariaDB's JSON is text with
        # a check; SQLite has functions for JSON but no type.
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return dialect.type_descriptor(postgresql.JSON())
        if is_mysql(dialect):
            from sqlalchemy.dialects import mysql

            return dialect.type_descriptor(mysql.JSON())
        return dialect.type_descriptor(Text())

    def bind_processor(self, _dialect: Dialect) -> None:
        return None

    def result_processor(self, _dialect: Dialect, _coltype: object) -> None:
        return None


class utc_now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function it is
    """The database's clock in UTC, whatever the session's zone, with all its digits."""

    type = UtcDateTime()
    inherit_cache = True


# Differs because each database names its clock otherwise, and only some of them keep it in UTC.
@compiles(utc_now, *MYSQLS)
def _mysql_utc_now(_element: utc_now, _compiler: SQLCompiler, **_: object) -> str:
    return "(UTC_TIMESTAMP(6))"


@compiles(utc_now, "postgresql")
def _postgres_utc_now(_element: utc_now, _compiler: SQLCompiler, **_: object) -> str:
    return "clock_timestamp()"  # now() would be the start of the transaction


@compiles(utc_now, "sqlite")
def _sqlite_utc_now(_element: utc_now, _compiler: SQLCompiler, **_: object) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f000', 'now'))"


# --- connecting -------------------------------------------------------------------------------------------


def engine_options(url: URL, connections: int) -> dict[str, Any]:
    """A small pool that never resets by a round trip: each unit of work ends in its own COMMIT or ROLLBACK."""
    pool = {"poolclass": QueuePool, "pool_size": connections, "max_overflow": 0, "pool_reset_on_return": None}
    # Differs because each driver names its time-outs otherwise, and SQLite has no server to lose.
    if url.get_backend_name() == "sqlite":
        return {**pool, "connect_args": {"timeout": STATEMENT_SECONDS, "check_same_thread": False}}
    if url.get_backend_name() in MYSQLS:
        session = f"SET SESSION time_zone='+00:00', wait_timeout={IDLE_SECONDS}, sql_mode='STRICT_ALL_TABLES'"
        return {
            **pool,
            "isolation_level": "READ COMMITTED",
            "connect_args": {
                "connect_timeout": CONNECT_SECONDS,
                "read_timeout": STATEMENT_SECONDS,
                "write_timeout": STATEMENT_SECONDS,
                "charset": "utf8mb4",
                "conv": _mysql_conversions(),
                "init_command": f"{session}, innodb_lock_wait_timeout={LOCK_SECONDS}",
                # PyMySQL builds a TLS context for every connection, 30 ms of CPU that loopback does not need.
                **({"ssl_disabled": True} if is_local(url) else {}),
            },
        }
    session = (
        f"-c timezone=UTC -c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout={LOCK_SECONDS}s "
        f"-c idle_in_transaction_session_timeout={IDLE_SECONDS}s"
    )
    return {
        **pool,
        "isolation_level": "READ COMMITTED",
        "connect_args": {
            "connect_timeout": CONNECT_SECONDS,
            "tcp_user_timeout": STATEMENT_SECONDS * 1000,
            "keepalives_idle": CONNECT_SECONDS,
            "keepalives_interval": 1,
            "options": session,
        },
    }


def _mysql_conversions() -> dict[Any, Any]:
    """PyMySQL reads a time by a regular expression, ten times slower than Python's own parser."""
    from pymysql.constants import FIELD_TYPE  # only there where MySQL is used
    from pymysql.converters import conversions

    return {**conversions, FIELD_TYPE.DATETIME: datetime.fromisoformat}


def is_local(url: URL) -> bool:
    """Whether a connection never leaves this machine; a URL that speaks of TLS is taken at its word."""
    speaks_of_tls = any(name.startswith("ssl") for name in url.query)
    return not speaks_of_tls and ("unix_socket" in url.query or url.host in ("localhost", "127.0.0.1", "::1"))


def embedded_file(url: str) -> Path | None:
    # Differs because only SQLite's database is a file of ours.
    parsed = make_url(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def prepare_engine(engine: Engine) -> None:
    listen(engine, "do_connect", _connect)
    # Differs because Python's sqlite3 begins DEFERRED, and upgrading such a transaction fails at once with
    # "database is locked" whatever the busy timeout is: writers ask for the lock when they begin.
    if engine.dialect.name == "sqlite":
        listen(engine, "connect", _leave_transactions_to_us)
        listen(engine, "begin", _begin_immediate)
    # Differs because psycopg parses JSON by itself, and a JSON string could no longer be told from its text.
    if engine.dialect.name == "postgresql":
        listen(engine, "connect", _leave_json_as_text)


def _connect(dialect: Dialect, _record: object, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What the driver cannot make sense of is what somebody wrote behind the ? of DATABASE_URL."""
    # Differs because PyMySQL is called with the options and raises whatever Python does; psycopg parses them.
    try:
        return dialect.connect(*arguments, **options)
    except (TypeError, ValueError, OSError, dialect.loaded_dbapi.ProgrammingError) as error:
        raise BadDatabaseOption(str(error).strip()) from error


def _leave_transactions_to_us(dbapi_connection: Any, _record: object) -> None:
    dbapi_connection.isolation_level = None
    dbapi_connection.execute("PRAGMA synchronous=FULL")
    _write_ahead(dbapi_connection)


def _write_ahead(dbapi_connection: Any) -> None:
    """WAL: readers wait for nobody. A property of the file, set by the first who can; a copy may have lost it."""
    [pages] = dbapi_connection.execute("PRAGMA page_count").fetchone()
    if pages == 0:
        return  # not before the tables are in it: a file that has any content counts as complete
    with suppress(dbapi_connection.OperationalError):  # somebody is at work in it: another time
        dbapi_connection.execute("PRAGMA journal_mode=WAL")


def _begin_immediate(connection: Connection) -> None:
    if connection.get_execution_options().get("mayfly_reading", False):
        connection.exec_driver_sql("BEGIN")
    else:
        _take_the_write_lock(connection)


def _take_the_write_lock(connection: Connection) -> None:
    """Asked for every other millisecond: SQLite itself sleeps up to a tenth of a second while the lock lies idle."""
    until = monotonic() + STATEMENT_SECONDS
    driver: Any = connection.connection.dbapi_connection
    driver.execute("PRAGMA busy_timeout=0")
    try:
        while True:
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            except OperationalError as error:
                if trouble(error, connection.dialect) is not Trouble.REPEAT or monotonic() > until:
                    raise
                pause(random.uniform(*WRITE_LOCK_PAUSE))  # noqa: S311 - spreads rivals, guards nothing
            else:
                return
    finally:
        driver.execute(f"PRAGMA busy_timeout={STATEMENT_SECONDS * 1000}")


def _leave_json_as_text(dbapi_connection: Any, _record: object) -> None:
    from psycopg.types.json import set_json_loads  # an extra: only there where PostgreSQL is used

    set_json_loads(lambda raw: raw if isinstance(raw, str) else bytes(raw).decode(), dbapi_connection)


def packet_limit(connection: Any) -> int | None:
    """The largest statement the server takes; None where there is no such limit."""
    # Differs because MySQL answers a larger one by cutting the connection (2006), not by an error.
    if not is_mysql(connection.dialect):
        return None
    return int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())


# --- what a server can do ---------------------------------------------------------------------------------


def server_name(connection: Connection) -> str:
    version = ".".join(str(part) for part in (connection.dialect.server_version_info or ())[:3])
    return f"{_product(connection)} {version}"


def require_skip_locked(connection: Connection) -> None:
    """A server that ignores SKIP LOCKED would look like an empty queue; refuse it with a sentence."""
    # Differs because the two MySQLs learned it at different versions; PostgreSQL in 9.5; SQLite locks whole.
    oldest = {"MySQL": (8, 0, 1), "MariaDB": (10, 6), "PostgreSQL": (12,), "SQLite": (3, 35)}
    product = _product(connection)
    version = connection.dialect.server_version_info
    if version is not None and tuple(version) < oldest[product]:
        raise ServerTooOld(server_name(connection), product, ".".join(map(str, oldest[product])))


def _product(connection: Connection) -> str:
    # Differs because SQLAlchemy has one dialect for the two MySQLs, and people know the products by name.
    if is_mysql(connection.dialect):
        return "MariaDB" if getattr(connection.dialect, "is_mariadb", False) else "MySQL"
    return {"postgresql": "PostgreSQL", "sqlite": "SQLite"}[connection.dialect.name]


# --- statements -------------------------------------------------------------------------------------------


def lock_rows(statement: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    # Differs because SQLite has no row locks: SQLAlchemy leaves FOR UPDATE out there, and BEGIN IMMEDIATE
    # has already made this transaction the only writer.
    return statement.with_for_update(skip_locked=True)


def bundle(dialect: Dialect, separator: str, columns: Sequence[ColumnElement[Any]]) -> Sequence[ColumnElement[Any]]:
    """The columns, or one text of them all."""
    # Differs because PyMySQL takes half a microsecond of Python for each column of each row; the others' drivers
    # are written in C, and take longer to join the columns than to deliver them.
    return [func.concat_ws(separator, *columns)] if is_mysql(dialect) else columns


def insert_or_keep(dialect: Dialect, table: Table, live: str) -> Insert:
    """INSERT that leaves the job alone which already holds the unique key."""
    # Differs because MySQL has neither ON CONFLICT nor partial indexes. IGNORE there also softens other errors
    # into warnings: every value has passed our own door by then.
    if is_mysql(dialect):
        return _mysql_insert(table).prefix_with("IGNORE")
    return _insert_on_conflict(dialect, table).on_conflict_do_nothing(
        index_elements=[table.c.unique_key], index_where=text(live)
    )


def insert_or_find(table: Table) -> Insert:
    """INSERT whose `lastrowid` is the new row, or the one that already holds the unique key."""
    # Differs because MySQL has no RETURNING. A second statement would not find the holder inside an
    # application's REPEATABLE READ, and would scan for it: only the column live_key has an index there.
    return _mysql_insert(table).on_duplicate_key_update(id=func.last_insert_id(table.c.id))


def has_insert_returning(dialect: Dialect) -> bool:
    # Differs because MySQL has no RETURNING at all, and MariaDB's is not known to SQLAlchemy's bulk insert.
    return not is_mysql(dialect)


def upsert(dialect: Dialect, table: Table, key: tuple[str, ...], columns: Collection[str]) -> Insert:
    """INSERT that overwrites these columns of the row with the same key: repeating it changes nothing."""
    # Differs because MySQL writes ON DUPLICATE KEY UPDATE where the others write ON CONFLICT.
    others = [name for name in columns if name not in key]
    if is_mysql(dialect):
        statement = _mysql_insert(table)
        return statement.on_duplicate_key_update({name: statement.inserted[name] for name in others})
    written = _insert_on_conflict(dialect, table)
    return written.on_conflict_do_update(
        index_elements=list(key), set_={name: written.excluded[name] for name in others}
    )


def insert_missing(dialect: Dialect, table: Table, key: tuple[str, ...]) -> Insert:
    """INSERT that leaves a row alone which already has this key."""
    # Differs because MySQL writes IGNORE where the others write ON CONFLICT DO NOTHING.
    if is_mysql(dialect):
        return _mysql_insert(table).prefix_with("IGNORE")
    return _insert_on_conflict(dialect, table).on_conflict_do_nothing(index_elements=list(key))


def _mysql_insert(table: Table) -> "mysql.Insert":
    from sqlalchemy.dialects.mysql import insert

    return insert(table)


def _insert_on_conflict(dialect: Dialect, table: Table) -> "postgresql.Insert | sqlite.Insert":
    # Differs because SQLAlchemy has ON CONFLICT twice, and each only for its own database.
    if dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def has_partial_indexes(dialect: Dialect) -> bool:
    # Differs because MySQL and MariaDB cannot index some of a table's rows only.
    return not is_mysql(dialect)


def json_object_check(dialect: Dialect, name: str) -> str:
    # Differs because each database names the type of a JSON value by another function.
    if dialect.name == "postgresql":
        return f"json_typeof({name}) = 'object'"
    object_word = "OBJECT" if is_mysql(dialect) else "object"
    return f"json_valid({name}) AND json_type({name}) = '{object_word}'"


def time_check(dialect: Dialect, name: str) -> str:
    """Times that every driver can read and the claim can compare: one other row would stop its whole lane."""
    # Differs because SQLite compares the texts, so they must all be written alike and in UTC; the servers also
    # know times that Python does not (-infinity, BC, 0000-00-00), and PostgreSQL wants to hear which zone.
    if dialect.name == "sqlite":
        seconds, fraction = f"substr({name}, 1, 19)", f"substr({name}, 20)"  # strftime would round .9996 up
        is_time = f"{seconds} IS strftime('%Y-%m-%d %H:%M:%S', {seconds}) AND {name} >= '0001'"
        return f"{is_time} AND trim({fraction}, '.0123456789') = ''"
    zone = "+00" if dialect.name == "postgresql" else ""
    return f"{name} BETWEEN '0001-01-01 00:00:00{zone}' AND '9999-12-31 23:59:59.999999{zone}'"


def dialect_of_raw(connection: object) -> Dialect | None:
    """The dialect of an application's own driver connection, or None when it is not one we know."""
    # Differs because each driver writes parameters otherwise (%s, %(name)s, ?).
    package = type(connection).__module__.partition(".")[0]
    url = {"pymysql": "mysql+pymysql://", "psycopg": "postgresql+psycopg://", "sqlite3": "sqlite://"}.get(package)
    return make_url(url).get_dialect()() if url else None


# --- migrations -------------------------------------------------------------------------------------------


@contextmanager
def migration_lock(connection: Connection) -> Iterator[None]:
    """One migration at a time, over all hosts. Here, before any table exists, a named lock must serve."""
    # Differs because each server names such a lock otherwise, and SQLite's BEGIN IMMEDIATE is one already.
    if is_mysql(connection.dialect):
        while not connection.execute(text("SELECT GET_LOCK('mayfly_migrate', 60)")).scalar_one():
            connection.commit()
        connection.commit()
    elif connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_lock(hashtext('mayfly_migrate'))"))
        connection.commit()
    yield


# --- errors -----------------------------------------------------------------------------------------------


class Trouble(Enum):
    """What a driver's error means to us."""

    REPEAT = auto()  # a deadlock and its kind: the same transaction again
    AWAY = auto()  # no server, or no longer
    REFUSED = auto()  # user, password, database name, privileges
    UNOPENABLE = auto()  # a file that is not there, not ours, or no database
    FULL = auto()  # no space, or read-only
    NO_TABLE = auto()
    OTHER = auto()


_MYSQL = {
    **dict.fromkeys((1213, 1205, 1020), Trouble.REPEAT),
    **dict.fromkeys((2002, 2003, 2006, 2013, 2014, 2055, 1040, 1047, 1053, 1180, 1927, 4031, 0), Trouble.AWAY),
    **dict.fromkeys((1044, 1045, 1049, 1130, 1142, 1143, 1698), Trouble.REFUSED),
    **dict.fromkeys((1021, 1114, 1290, 1836, 3), Trouble.FULL),
    1146: Trouble.NO_TABLE,
}
_POSTGRES = {
    **dict.fromkeys(("40001", "40P01", "55P03"), Trouble.REPEAT),
    **dict.fromkeys(("57P01", "57P02", "57P03", "53300", "57P05", "25P03"), Trouble.AWAY),
    **dict.fromkeys(("28000", "28P01", "3D000", "42501"), Trouble.REFUSED),
    **dict.fromkeys(("53100", "25006"), Trouble.FULL),
    "42P01": Trouble.NO_TABLE,
}
_SQLITE = {
    "SQLITE_BUSY": Trouble.REPEAT,
    "SQLITE_LOCKED": Trouble.REPEAT,
    "SQLITE_CANTOPEN": Trouble.UNOPENABLE,
    "SQLITE_NOTADB": Trouble.UNOPENABLE,
    "SQLITE_CORRUPT": Trouble.UNOPENABLE,
    "SQLITE_FULL": Trouble.FULL,
    "SQLITE_READONLY": Trouble.FULL,
    "SQLITE_IOERR": Trouble.FULL,
}


def trouble(error: DBAPIError, dialect: Dialect) -> Trouble:
    original = error.orig
    # Differs because MySQL numbers its errors, PostgreSQL has SQLSTATEs (none when it could not even connect)
    # and SQLite names them; "no such table" alone has no name of its own there.
    if is_mysql(dialect):
        code = original.args[0] if original is not None and original.args else 0
        return _MYSQL.get(code, Trouble.OTHER) if isinstance(code, int) else Trouble.OTHER
    if dialect.name == "postgresql":
        state = getattr(original, "sqlstate", None)
        if state is None:
            return _postgres_connect_trouble(error)
        return _POSTGRES.get(state, Trouble.AWAY if state.startswith("08") else Trouble.OTHER)
    if "no such table" in str(original):
        return Trouble.NO_TABLE
    name = getattr(original, "sqlite_errorname", "")
    return next((meaning for prefix, meaning in _SQLITE.items() if name.startswith(prefix)), Trouble.OTHER)


def _postgres_connect_trouble(error: DBAPIError) -> Trouble:
    words = str(error.orig)
    if "authentication failed" in words or "does not exist" in words or "no pg_hba.conf" in words:
        return Trouble.REFUSED
    return Trouble.AWAY if isinstance(error, OperationalError) else Trouble.OTHER
