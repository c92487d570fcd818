"""Which server answered, by what it says of itself. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from mayfly.errors import ServerTooOld

# The first versions with SKIP LOCKED, or old enough for what we ask of them.
MIN_VERSIONS = {"SQLite": (3, 35), "MariaDB": (10, 6), "MySQL": (8, 0, 1), "PostgreSQL": (12,)}


class DatabaseServer(NamedTuple):
    product: str
    version: tuple[int, ...]  # empty where a server does not say

    def __str__(self) -> str:
        return f"{self.product} {_dotted(self.version[:3])}".strip()

    @property
    def is_known(self) -> bool:
        return not self.version or self.version >= MIN_VERSIONS[self.product]

    @property
    def oldest(self) -> str:
        return _dotted(MIN_VERSIONS[self.product])


def mysql_server(said: str) -> DatabaseServer:
    """From its words: 5.5.5-10.11.6-MariaDB-0+deb12u1, 11.4.2-MariaDB, 8.4.3, 8.0.35-0ubuntu0.22.04.1."""
    match = re.match(r"([0-9]+)\.([0-9]+)\.([0-9]+)", said.removeprefix("5.5.5-"))  # for clients of long ago
    version = tuple(map(int, match.groups())) if match else ()
    return DatabaseServer("MariaDB" if "MariaDB" in said else "MySQL", version)


def postgres_server(number: int) -> DatabaseServer:
    """From its number: 150006 is 15.6."""
    return DatabaseServer("PostgreSQL", (number // 10_000, number % 10_000))


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


CONNECT_SECONDS = 3
STATEMENT_SECONDS = 10  # PyMySQL's own default waits for ever on a cut link
LOCK_SECONDS = 5
IDLE_SECONDS = 90  # a dead client's session and its locks are gone after this

Row = tuple[Any, ...]
Values = Mapping[str, Any]
PLAIN = frozenset({str, int, float, type(None)})  # what drivers take as it is

_PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")


class ErrorKind(Enum):
    """What a driver's error means to us."""

    REPEAT = auto()  # a deadlock and its kind: the same transaction again
    TAKEN = auto()  # a unique key, by somebody else: who looks for it first may find it now, and repeats as well
    AWAY = auto()  # no server, or no longer
    CROWDED = auto()  # the server has no connection left, or none for this user
    REFUSED = auto()  # user, password, database name, privileges
    UNOPENABLE = auto()  # a file that is not there, not ours, or no database
    FULL = auto()  # no space, or read-only
    NO_TABLE = auto()
    OTHER = auto()


class Unit(Enum):
    """What is done at a time."""

    TRANSACTION = auto()
    STATEMENT = auto()  # a single one, that commits by itself
    LOOK = auto()  # changes nothing
    LENT = auto()  # begun and committed through SQLAlchemy: see mayfly.db.sqlalchemy


class Found(NamedTuple):
    """What became of a row whose unique key may have been held."""

    id: int
    is_held: bool  # by the row with this id, which was left as it is
    is_released: bool  # it was held by this row, and is no longer: nothing was inserted


class Dialect:
    """One database's way of saying things. Without state: there is one of each."""

    name: ClassVar[str]  # as SQLAlchemy calls it
    utc_now: ClassVar[str]  # the database's clock in UTC, whatever the session's zone, with all its digits
    mark: ClassVar[str] = "%s"  # the driver's for a parameter without a name
    begin_words: ClassVar[str] = "BEGIN"
    has_insert_returning: ClassVar[bool] = True
    has_lastrowid: ClassVar[bool] = True  # of one plain INSERT, and cheaper than RETURNING
    row_lock: ClassVar[str] = " FOR UPDATE"
    newest: ClassVar[str] = ""  # behind a SELECT: what others have committed by now, whatever the isolation level
    claim_lock: ClassVar[str] = " FOR UPDATE SKIP LOCKED"

    @property
    def errors(self) -> type[Exception]:
        """What the driver raises."""
        raise NotImplementedError

    def connect(self, url: str) -> Any:
        """A driver's connection, ready for work, that commits by itself what does not stand in a transaction."""
        raise NotImplementedError

    def server(self, raw: Any) -> DatabaseServer:
        raise NotImplementedError

    def require_skip_locked(self, raw: Any) -> None:
        """A server that ignores SKIP LOCKED would look like an empty queue; refuse it with a sentence."""
        server = self.server(raw)
        if not server.is_known:
            raise ServerTooOld(str(server), server.product, server.oldest)

    # --- transactions ---

    def begin(self, raw: Any, unit: Unit = Unit.TRANSACTION) -> bool:
        """Whether there will be something to commit: servers commit by themselves what stands alone."""
        if unit is not Unit.TRANSACTION:
            return False
        raw.cursor().execute(self.begin_words)
        return True

    def commit(self, raw: Any) -> None:
        raw.commit()

    def roll_back(self, raw: Any) -> None:
        raw.rollback()

    def is_cut(self, raw: Any) -> bool:
        """Whether the connection is of no more use."""
        raise NotImplementedError

    def is_alive(self, raw: Any) -> bool:
        """Whether the server answers on this connection: one round trip."""
        try:
            raw.cursor().execute("SELECT 1")
        except self.errors:
            return False
        return True

    def trouble(self, error: BaseException) -> ErrorKind:
        raise NotImplementedError

    # --- statements ---

    def rendered(self, statement: str) -> str:
        """With parameters as the driver writes them."""
        return _percent_style(statement)

    def bound(self, value: Any) -> Any:
        """A parameter as the driver takes it."""
        return value

    def all_bound(self, values: Values) -> Values:
        """Most rows have nothing but texts and numbers."""
        if PLAIN.issuperset(map(type, values.values())):
            return values
        return {name: self.bound(value) for name, value in values.items()}

    def ready(self, _raw: Any, statement: str, values: Values) -> tuple[str, Values | None]:
        """A rendered statement and its parameters, as the driver's `execute` takes them."""
        return statement, self.all_bound(values)

    def bundled(self, _separator: str, columns: Sequence[str]) -> Sequence[str]:
        """The columns, or one text of them all."""
        return columns

    def in_order_of(self, _index: str) -> str:
        """A hint behind a table's name, where a range of this index is not used without one."""
        return ""

    def assignments(self, columns: Collection[str]) -> str:
        """Each set to the parameter of its name."""
        return ", ".join(f"{name} = :{name}" for name in columns)

    def as_text(self, column: str) -> str:
        """A column of JSON, to be searched."""
        return f"CAST({column} AS TEXT)"

    def moment(self, text: str) -> Any:
        """A time of the table, from the text that stood in the address of a page; as a parameter."""
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
        """What stands before INTO and after the values so that the row which already has this key is left alone."""
        return "", f" ON CONFLICT ({key}) WHERE {condition} DO NOTHING"

    def replacing(self, key: str, condition: str, changes: Mapping[str, str], replaceable: str) -> str:
        """The same, but the row which already has this key is changed if it is replaceable."""
        changed = ", ".join(f"{name} = {value}" for name, value in changes.items())
        return f" ON CONFLICT ({key}) WHERE {condition} DO UPDATE SET {changed} WHERE {replaceable}"

    def given(self, name: str) -> str:
        """In such a change, the value that would have been inserted."""
        return f"excluded.{name}"

    def held_key(self, key: str) -> str:
        """The column by whose index the row is found that holds this unique key."""
        return key

    def finding(self, id_column: str, key: str, over: str, changes: Mapping[str, str], replaceable: str) -> str:
        """What follows the values so that `found` can tell from `lastrowid` what became of the row."""
        raise NotImplementedError  # where INSERT returns rows, nobody needs it

    def found(self, lastrowid: int) -> Found:
        raise NotImplementedError

    def insert_missing(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        """INSERT that leaves a row alone which already has this key."""
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO NOTHING"

    def upsert(self, table: str, key: Collection[str], columns: Collection[str]) -> str:
        """INSERT that overwrites these columns of the row with the same key: repeating it changes nothing."""
        changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in key)
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"

    def packet_limit(self, _connection: Any) -> int | None:
        """The largest statement the server takes; None where there is no such limit."""
        return None


@lru_cache(1000)
def _percent_style(statement: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


def utc_from_driver(value: datetime | str) -> datetime:
    """A time as any of the drivers gives it: without a zone it is UTC, and SQLite's are texts."""
    if isinstance(value, str):
        return datetime.fromisoformat(f"{value}+00:00")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def utc_text(value: datetime, digits: str = "auto") -> str:
    """In UTC, without the zone: to cut that off is cheaper than to take it away before."""
    return (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat(" ", digits)[: -len("+00:00")]
