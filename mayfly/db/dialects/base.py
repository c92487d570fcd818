"""What dialects share: server versions, kinds of errors, transactions, SQL. Each overrides what differs."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from mayfly.errors import ServerTooOld

# The first versions with SKIP LOCKED, or with the other features we need.
MIN_VERSIONS = {"SQLite": (3, 35), "MariaDB": (10, 6), "MySQL": (8, 0, 1), "PostgreSQL": (12,)}


class DatabaseServer(NamedTuple):
    product: str
    version: tuple[int, ...]  # empty if unknown

    def __str__(self) -> str:
        return f"{self.product} {_dotted(self.version[:3])}".strip()

    @property
    def is_known(self) -> bool:
        return not self.version or self.version >= MIN_VERSIONS[self.product]

    @property
    def oldest(self) -> str:
        return _dotted(MIN_VERSIONS[self.product])


def mysql_server(version_text: str) -> DatabaseServer:
    """From its version text: 5.5.5-10.11.6-MariaDB-0+deb12u1, 11.4.2-MariaDB, 8.4.3, 8.0.35-0ubuntu0.22.04.1."""
    match = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", version_text.removeprefix("5.5.5-"))  # a prefix for old clients
    version = tuple(map(int, match.groups())) if match else ()
    return DatabaseServer("MariaDB" if "MariaDB" in version_text else "MySQL", version)


def postgres_server(number: int) -> DatabaseServer:
    """From its number: 150006 is 15.6."""
    return DatabaseServer("PostgreSQL", (number // 10_000, number % 10_000))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


CONNECT_SECONDS = 3
STATEMENT_SECONDS = 10  # PyMySQL's own default waits forever on a broken connection
LOCK_SECONDS = 5
IDLE_SECONDS = 90  # after this, the server ends a dead client's session and releases its locks

Row = tuple[Any, ...]
Values = Mapping[str, Any]
PLAIN = frozenset({str, int, float, type(None)})  # what drivers take unchanged

_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")


class ErrorKind(Enum):
    """What a driver's error means."""

    REPEAT = auto()  # a deadlock or the like: run the same transaction again
    TAKEN = auto()  # a unique key is taken by another transaction: repeated as well, because a query may find it now
    AWAY = auto()  # no connection to the server, or no longer
    CROWDED = auto()  # too many connections, in all or of this user
    REFUSED = auto()  # user, password, database name, privileges
    UNOPENABLE = auto()  # a file that does not exist, is not readable, or is no database
    FULL = auto()  # no space, or read-only
    NO_TABLE = auto()
    OTHER = auto()


class Unit(Enum):
    """A unit of work."""

    TRANSACTION = auto()
    STATEMENT = auto()  # a single one, which the server commits by itself
    READ = auto()  # changes nothing
    LENT = auto()  # begun and committed through SQLAlchemy: see mayfly.db.sqlalchemy


class Found(NamedTuple):
    """The result of inserting a row whose unique key may have been held."""

    id: int
    is_held: bool  # by the row with this id, which is unchanged
    is_released: bool  # this row held it and has released it: nothing was inserted


class Dialect:
    """The SQL and the driver of one database. Stateless: there is one instance of each."""

    name: ClassVar[str]  # as SQLAlchemy calls it
    utc_now: ClassVar[str]  # the database's clock in UTC, whatever the session's zone, with all its digits
    mark: ClassVar[str] = "%s"  # the driver's for a parameter without a name
    begin_words: ClassVar[str] = "BEGIN"
    has_insert_returning: ClassVar[bool] = True
    has_lastrowid: ClassVar[bool] = True  # of one plain INSERT, and cheaper than RETURNING
    row_lock: ClassVar[str] = " FOR UPDATE"
    newest: ClassVar[str] = ""  # appended to a SELECT: reads what is committed by now, whatever the isolation level
    claim_lock: ClassVar[str] = " FOR UPDATE SKIP LOCKED"

    @property
    def errors(self) -> type[Exception]:
        """The base class of the driver's errors."""
        raise NotImplementedError

    def connect(self, url: str) -> Any:
        """A configured connection of the driver, in autocommit mode outside of transactions."""
        raise NotImplementedError

    def server(self, raw: Any) -> DatabaseServer:
        raise NotImplementedError

    def require_skip_locked(self, raw: Any) -> None:
        """With a server that ignores SKIP LOCKED the queue would seem empty; refuse it with a sentence."""
        server = self.server(raw)
        if not server.is_known:
            raise ServerTooOld(str(server), server.product, server.oldest)

    # --- transactions ---

    def begin(self, raw: Any, unit: Unit = Unit.TRANSACTION) -> bool:
        """Whether a COMMIT must follow: servers commit single statements by themselves."""
        if unit is not Unit.TRANSACTION:
            return False
        raw.cursor().execute(self.begin_words)
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

    def bound(self, value: Any) -> Any:
        """A value as the driver takes it."""
        return value

    def all_bound(self, values: Values) -> Values:
        """Most rows have only texts and numbers, which need no conversion."""
        if PLAIN.issuperset(map(type, values.values())):
            return values
        return {name: self.bound(value) for name, value in values.items()}

    def in_order_of(self, _index: str) -> str:
        """A hint after a table's name, for databases that do not use a range of this index without it."""
        return ""

    def assignments(self, columns: Collection[str]) -> str:
        """Each set to the parameter of its name."""
        return ", ".join(f"{name} = :{name}" for name in columns)

    def as_text(self, column: str) -> str:
        """A JSON column as text, to search in it."""
        return f"CAST({column} AS TEXT)"

    def moment(self, text: str) -> Any:
        """A time of the table as a parameter, from its text in the URL of a page."""
        return utc_from_driver(text)

    def insert(self, table: str, columns: Collection[str], before: str = "") -> str:
        values = ", ".join(f":{name}" for name in columns)
        return f"INSERT {before}INTO {table} ({', '.join(columns)}) VALUES ({values})"

    def insert_many(
        self, connection: Any, table: str, columns: Sequence[str], rows: Sequence[Row], keeping: tuple[str, str]
    ) -> int:
        """One statement for all rows; how many were inserted."""
        before, after = keeping
        head = f"INSERT {before}INTO {table} ({', '.join(columns)}) VALUES "
        return int(connection.execute_rows(head, columns, rows, after).rowcount)

    def keeping(self, key: str, condition: str) -> tuple[str, str]:
        """What stands before INTO and after the values so that a row with the same key is left alone."""
        return "", f" ON CONFLICT ({key}) WHERE {condition} DO NOTHING"

    def replacing(self, key: str, condition: str, changes: Mapping[str, str], replaceable: str) -> str:
        """The same, but a row with the same key is changed if it is replaceable."""
        changed = ", ".join(f"{name} = {value}" for name, value in changes.items())
        return f" ON CONFLICT ({key}) WHERE {condition} DO UPDATE SET {changed} WHERE {replaceable}"

    def given(self, name: str) -> str:
        """In such a change, the value of the new row."""
        return f"excluded.{name}"

    def held_key(self, key: str) -> str:
        """The column whose index finds the row that holds this unique key."""
        return key

    def finding(self, id_column: str, key: str, over: str, changes: Mapping[str, str], replaceable: str) -> str:
        """What follows the values so that `found` can read the result from `lastrowid`."""
        raise NotImplementedError  # not needed where INSERT has RETURNING

    def found(self, lastrowid: int) -> Found:
        raise NotImplementedError

    def insert_missing(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        """INSERT that leaves a row with the same key alone."""
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO NOTHING"

    def upsert(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        """INSERT that overwrites these columns of the row with the same key: repeating it changes nothing."""
        changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"

    def packet_limit(self, _connection: Any) -> int | None:
        """The largest statement that the server takes; None if there is no limit."""
        return None


@lru_cache(1000)
def _percent_style(statement: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


def utc_from_driver(value: datetime | str) -> datetime:
    """A time as any of the drivers returns it: without a zone it is UTC; SQLite's are texts."""
    if isinstance(value, str):
        return datetime.fromisoformat(f"{value}+00:00")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_text(value: datetime, digits: str = "auto") -> str:
    """In UTC, without the zone: cutting it off the text is faster than removing it before."""
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat(" ", digits)[: -len("+00:00")]
