"""The only package that depends on the kind of database. Each database overrides the parts of Dialect that differ.

Every difference has a comment `Differs because …`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast
from urllib.parse import parse_qsl, unquote

from mayfly.errors import ServerTooOld
from mayfly.settings.values import SERVER

# The first versions with SKIP LOCKED, or with the other features we need.
MIN_VERSIONS = {"SQLite": (3, 35), "MariaDB": (10, 6), "MySQL": (8, 0, 1), "PostgreSQL": (12,)}


class DatabaseServer(NamedTuple):
    product: str
    version: tuple[int, ...]  # empty if unknown

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version[:3]))}".strip()

    @property
    def is_known(self) -> bool:
        return not self.version or self.version >= MIN_VERSIONS[self.product]


CONNECT_SECONDS = 3
STATEMENT_SECONDS = 10  # PyMySQL's own default waits forever on a broken connection
LOCK_SECONDS = 5
IDLE_SECONDS = 90  # after this, the server ends a dead client's session and releases its locks

ROWS_PER_STATEMENT = 300  # that execute_many inserts by one statement, on every server

Row = tuple[Any, ...]
Values = Mapping[str, Any]
PLAIN = frozenset({str, int, float, type(None)})  # what drivers take unchanged

_PARAMETER = re.compile(r"(?<![:\w\\]):([a-z]\w*)")


class ErrorKind(Enum):
    """What a driver's error means."""

    REPEAT = auto()  # a deadlock or the like: run the same transaction again
    TAKEN = auto()  # another transaction has inserted the same unique key: repeated as well, a query may find it now
    AWAY = auto()  # the server cannot be reached, or the connection was lost
    DETACHED = auto()  # a node of a cluster refused the statement before it ran it
    CROWDED = auto()  # too many connections, in total or of this user
    REFUSED = auto()  # user, password, database name, privileges
    UNOPENABLE = auto()  # a file that does not exist, is not readable, or is not a database
    FULL = auto()  # no space, or a file that is read-only
    STANDBY = auto()  # a server that is read-only, such as a replica
    NO_TABLE = auto()
    OTHER = auto()


class Unit(Enum):
    """A unit of work."""

    TRANSACTION = auto()
    STATEMENT = auto()  # a single statement, which the server commits by itself
    READ = auto()  # changes nothing
    SQLALCHEMY = auto()  # begun and committed through SQLAlchemy: see mayfly.db.sqlalchemy


class Found(NamedTuple):
    """The result of inserting a row whose unique key may have been held."""

    id: int
    is_held: bool  # by the row with this id, which is unchanged
    is_released: bool  # this row held it and has released it: nothing was inserted


class TableColumn(NamedTuple):
    """A column of an application's table."""

    max_length: int | None = None  # of its texts
    is_binary: bool = False  # its values are no text, and must be converted for JSON
    is_integer: bool = False


TableColumns = Mapping[str, TableColumn]


class Dialect:
    """The SQL and the driver of one database. Stateless: there is one instance of each."""

    name: ClassVar[str]  # as SQLAlchemy calls it
    utc_now: ClassVar[str]  # the database's clock in UTC for every session time zone, in full precision
    location: ClassVar[str]  # selects a text that is the same in all sessions of a database, and only there
    mark: ClassVar[str] = "%s"  # the driver's placeholder for a parameter without a name
    begin_statement: ClassVar[str] = "BEGIN"
    has_insert_returning: ClassVar[bool] = True
    has_update_returning: ClassVar[bool] = True
    has_lastrowid: ClassVar[bool] = True  # after a plain INSERT of one row; faster than RETURNING
    row_lock: ClassVar[str] = " FOR UPDATE"
    newest: ClassVar[str] = ""  # appended to a SELECT: reads what is committed by now, at every isolation level
    claim_lock: ClassVar[str] = " FOR UPDATE SKIP LOCKED"
    for_each_row: ClassVar[str] = ""  # appended to a subquery that is to be run for each row, and not joined
    needs_both_bounds: ClassVar[bool] = False  # to read due rows of a source along the index without statistics
    has_times: ClassVar[bool] = True  # a type for times, which compares them whatever their text

    @property
    def errors(self) -> type[Exception]:
        """The base class of the driver's errors."""
        raise NotImplementedError

    def connect(self, url: str, *, for_writes: bool = False) -> Any:
        """A configured connection of the driver, in autocommit mode outside of transactions.

        With `for_writes` a server that is read-only or without its cluster is an error, and one that accepts
        connections but does not answer is an error after CONNECT_SECONDS: another host may be tried.
        """
        raise NotImplementedError

    def server(self, raw: Any) -> DatabaseServer:
        raise NotImplementedError

    def require_skip_locked(self, raw: Any) -> None:
        """Refuse an old server that ignores SKIP LOCKED: the queue would seem empty."""
        server = self.server(raw)
        if not server.is_known:
            raise ServerTooOld(server, DatabaseServer(server.product, MIN_VERSIONS[server.product]))

    def missing_session_settings(self, _connection: Any) -> list[str]:
        """The statements by which an administrator sets what this session should have and does not."""
        return []

    # --- transactions ---

    def begin(self, raw: Any, unit: Unit = Unit.TRANSACTION) -> bool:
        """Returns whether a COMMIT must follow: servers commit single statements by themselves."""
        if unit is not Unit.TRANSACTION:
            return False
        raw.cursor().execute(self.begin_statement)
        return True

    def commit(self, raw: Any) -> None:
        raw.commit()

    def roll_back(self, raw: Any) -> None:
        raw.rollback()

    def is_cut(self, raw: Any) -> bool:
        """Whether the connection is closed or broken."""
        raise NotImplementedError

    def is_alive(self, raw: Any) -> bool:
        """Whether the server answers on this connection: one round trip."""
        try:
            raw.cursor().execute("SELECT 1")
        except self.errors:
            return False
        return True

    def error_kind(self, error: BaseException) -> ErrorKind:
        raise NotImplementedError

    # --- statements ---

    def rendered(self, statement: str) -> str:
        """With parameters in the driver's style."""
        return _percent_style(statement)

    def verbatim(self, sql: str) -> str:
        """SQL from the settings as a part of a statement: no text in it is a parameter."""
        return sql.replace(":", "\\:")

    def quoted(self, name: str) -> str:
        """The validated name of a table or column, which may be a reserved word; a schema precedes it with a dot."""
        return ".".join(f'"{part}"' for part in name.split("."))

    def bound(self, value: Any) -> Any:
        """A value as the driver takes it."""
        return value

    def all_bound(self, values: Values) -> Values:
        """Most rows have only strings and numbers, which need no conversion."""
        if PLAIN.issuperset(map(type, values.values())):
            return values
        return {name: self.bound(value) for name, value in values.items()}

    def execute_many(self, cursor: Any, statement: str, rows: Sequence[Values]) -> None:
        """Servers insert up to ROWS_PER_STATEMENT short rows by one statement."""
        cursor.executemany(self.rendered(statement), [self.all_bound(row) for row in rows])

    def in_order_of(self, _index: str) -> str:
        """A hint after the table's name, for databases that would not use a range of this index without it."""
        return ""

    def along(self, _index: str) -> str:
        """A hint after the table's name, for databases that might read the whole table instead of this index."""
        return ""

    def first_of_each(self, _connection: Any, _table: str, _index: str, _columns: Sequence[str]) -> str | None:
        """A SELECT of every combination of the index's first columns, with the least value of the last one.

        `_columns` are these columns and the last one. The statement reads about one index entry per combination. None
        if there is no such statement: then the caller queries one combination after the other.
        """
        return None

    def assignments(self, columns: Collection[str]) -> str:
        """For SET: each column is set to the parameter of the same name."""
        return ", ".join(f"{name} = :{name}" for name in columns)

    def as_text(self, column: str) -> str:
        """A JSON column as text, to search in it."""
        return f"CAST({column} AS TEXT)"

    def row_key(self, prefix: str, column: str) -> str:
        """A prefix and the value of a column as text, to compare with a unique key."""
        return f"'{prefix}' || CAST({column} AS TEXT)"

    def json_object(self, columns: Mapping[str, str]) -> str:
        """A JSON object with the values of these columns, by name."""
        raise NotImplementedError

    def columns(self, connection: Any, table: str) -> TableColumns:
        """The columns of a table in their order; empty if it does not exist."""
        raise NotImplementedError

    def rolls_back(self, _connection: Any, _table: str) -> bool:
        """Whether the end of a transaction without a commit undoes its writes to this table."""
        return True

    def moment(self, text: str) -> Any:
        """A time of the table as a parameter, from its text in the URL of a page."""
        return utc_from_driver(text)

    def insert(self, table: str, columns: Collection[str], before: str = "") -> str:
        values = ", ".join(f":{name}" for name in columns)
        return f"INSERT {before}INTO {table} ({', '.join(columns)}) VALUES ({values})"

    def insert_many(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[Row], keeping: tuple[str, str]
    ) -> int:
        """One statement for all rows; returns how many were inserted."""
        before, after = keeping
        head = f"INSERT {before}INTO {table} ({', '.join(columns)}) VALUES "
        return int(connection.execute_rows(head, columns, rows, after).rowcount)

    def keeping(self, key: str, condition: str) -> tuple[str, str]:
        """The SQL before INTO and after the values that leaves a row with the same key unchanged."""
        return "", f" ON CONFLICT ({key}) WHERE {condition} DO NOTHING"

    def replacing(self, key: str, condition: str, changes: Mapping[str, str], replaceable: str) -> str:
        """The same, but a row with the same key is changed if it is replaceable."""
        changed = ", ".join(f"{name} = {value}" for name, value in changes.items())
        return f" ON CONFLICT ({key}) WHERE {condition} DO UPDATE SET {changed} WHERE {replaceable}"

    def given(self, name: str) -> str:
        """The value of the new row, inside such a change."""
        return f"excluded.{name}"

    def held_key(self, key: str) -> str:
        """The column whose index finds the row that holds this unique key."""
        return key

    def finding(self, id_column: str, key: str, over: str, changes: Mapping[str, str], replaceable: str) -> str:
        """The SQL after the values that lets `found` read the result from `lastrowid`."""
        raise NotImplementedError  # not needed where INSERT has RETURNING

    def found(self, lastrowid: int) -> Found:
        raise NotImplementedError

    def insert_missing(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        """INSERT that leaves a row with the same key unchanged."""
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO NOTHING"

    def upsert(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        """INSERT that overwrites these columns of the row with the same key: repeating it changes nothing."""
        changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"

    def packet_limit(self, _connection: Any) -> int | None:
        """The size in bytes of the largest statement that the server accepts; None if there is no limit."""
        return None


@lru_cache(1000)
def _percent_style(statement: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%")).replace("\\:", ":")


def reason_of(error: BaseException) -> str:
    """The first line of a driver's error."""
    return str(error).strip().partition("\n")[0].rstrip(".")


def utc_from_driver(value: datetime | str) -> datetime:
    """From a time as any of the drivers returns it: without a zone it is UTC; SQLite stores texts."""
    if isinstance(value, str):
        return datetime.fromisoformat(f"{value}+00:00")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_text(value: datetime, digits: str = "auto") -> str:
    """In UTC, without the zone: cutting it off the text is faster than removing it from the datetime."""
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat(" ", digits)[: -len("+00:00")]


# One module each, so that only the driver in use is imported.
DIALECTS = {"sqlite": "sqlite", "mysql": "mysql", "mariadb": "mysql", "postgresql": "postgres"}
_PACKAGES = {"pymysql": "mysql", "psycopg": "postgresql", "psycopg2": "postgresql", "sqlite3": "sqlite"}


def dialect_named(name: str) -> Dialect:
    """By SQLAlchemy's name; SQLAlchemy has a second one for URLs that begin with mariadb+pymysql://."""
    return cast(Dialect, import_module(f"mayfly.db.dialects.{DIALECTS[name]}").DIALECT)


def dialect_of_url(url: str) -> Dialect:
    return dialect_named(url.partition(":")[0].partition("+")[0])


def dialect_of_driver(connection: object) -> Dialect | None:
    """The dialect of an application's own driver connection, or None for an unknown driver."""
    name = _PACKAGES.get(type(connection).__module__.partition(".")[0])
    return dialect_named(name) if name else None


def embedded_file(url: str) -> Path | None:
    """The path of an SQLite database; None for a server."""
    scheme, _, path = url.partition(":///")
    # Differs because only SQLite's database is a file that we open.
    return Path(path.partition("?")[0]) if scheme.startswith("sqlite") else None


# --- arguments of drivers ----------------------------------------------------------------------------------


def server_arguments(url: str, database_argument: str, simple: Collection[str]) -> dict[str, Any]:
    """From a validated DATABASE_URL; SQLAlchemy parses it if it has an option that is not in `simple`."""
    match = re.fullmatch(f"[^:]+://{SERVER}", url)
    options = _simple_options(match["query"] or "", simple) if match and "%" not in match["database"] else None
    if match is None or options is None:
        return arguments_by_sqlalchemy(url)
    address = {
        "host": match["host4"] or match["host6"],
        "port": int(match["port"] or 0),
        "user": unquote(match["user"] or ""),
        "password": unquote(match["password"] or ""),
        database_argument: match["database"],
    }
    return {name: value for name, value in address.items() if value} | options


def _simple_options(query: str, simple: Collection[str]) -> dict[str, str] | None:
    try:
        pairs = parse_qsl(query, strict_parsing=bool(query))
    except ValueError:
        return None
    options = dict(pairs)
    return options if len(options) == len(pairs) and all(name in simple for name in options) else None


def arguments_by_sqlalchemy(url: str) -> dict[str, Any]:
    """The arguments that SQLAlchemy's own engines use."""
    from sqlalchemy.engine import make_url  # slow to import, and few URLs have such options

    parsed = make_url(url)
    dialect: Any = parsed.get_dialect()
    positional, options = dialect(dbapi=dialect.import_dbapi()).create_connect_args(parsed)
    for name in ("context", "client_flag"):  # set by SQLAlchemy for its own way to read values and count rows
        options.pop(name, None)
    return {"database": positional[0], **options} if positional else dict(options)
