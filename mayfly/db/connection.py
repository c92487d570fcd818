"""Connections that execute plain SQL in the dialect of their database, ours or an application's; a pool of ours."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Union

from mayfly.clock import monotonic, pause_between
from mayfly.db.dialects import DIALECTS, PLAIN, Dialect, Values, dialect_named, dialect_of_driver
from mayfly.errors import BadField, ConnectionsUsedUp

if TYPE_CHECKING:
    from mayfly.db.sqlalchemy import ForeignConnection

WAIT_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = (0.001, 0.005)
MAX_UNCHECKED_IDLE_SECONDS = 30.0  # servers and firewalls close idle sessions
NO_VALUES: Values = {}  # a plain dict: drivers take no other mapping
MIN_RANGE_LENGTH = 4  # ids: shorter ranges are listed


class Result:
    """The result of one statement; rows are tuples in the order of the selected columns."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    @property
    def lastrowid(self) -> int:
        return int(self._cursor.lastrowid)

    def all(self) -> Sequence[tuple[Any, ...]]:
        return list(self._cursor.fetchall())

    def first(self) -> Any:
        """The first row, or None."""
        return self._cursor.fetchone()

    def scalar(self) -> Any:
        """The first column of the first row, or None."""
        row = self.first()
        return None if row is None else _first_of(row)

    def scalars(self) -> Sequence[Any]:
        """The first column of each row."""
        return [_first_of(row) for row in self._cursor.fetchall()]


def _first_of(row: Any) -> Any:
    # Applications often configure their driver to return rows as dictionaries.
    return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


class Connection:
    """A driver's connection. Statements are plain SQL with parameters as `:name`."""

    __slots__ = ("dialect", "engine", "idle_since", "raw")

    def __init__(self, raw: Any, dialect: Dialect) -> None:
        self.raw = raw
        self.dialect = dialect
        self.idle_since = 0.0  # monotonic, set when it returns to the pool
        self.engine: Any = None  # SQLAlchemy's, once a handler has used this connection: see mayfly.db.sqlalchemy

    def execute(self, statement: str, values: Values = NO_VALUES, ids: Iterable[int] | None = None) -> Result:
        """`{ids of id}` in the statement stands for the condition that the column `id` is one of the ids."""
        dialect = self.dialect
        text = dialect.rendered(statement)
        if ids is not None:
            before, _, rest = text.partition("{ids of ")
            column, _, after = rest.partition("}")
            text = f"{before}{in_list(column, sorted(ids))}{after}"
        cursor = self.raw.cursor()
        cursor.execute(text, dialect.all_bound(values))
        return Result(cursor)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        self.dialect.execute_many(self.raw.cursor(), statement, rows)

    def execute_rows(self, head: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rest: str) -> Result:
        """INSERT many rows with one statement: drivers would send them one by one, which takes twice as long."""
        row = f"({', '.join([self.dialect.mark] * len(columns))})"
        values = [value for each in rows for value in each]
        if not PLAIN.issuperset(map(type, values)):
            values = list(map(self.dialect.bound, values))
        cursor = self.raw.cursor()
        cursor.execute(f"{head}{', '.join([row] * len(rows))}{rest}", values)
        return Result(cursor)


def in_list(column: str, ids: Sequence[int]) -> str:
    """`ids` are ascending, so that all transactions lock rows in the same order.

    Numbers need no quoting, and a thousand parameters would cost more than the rest of the statement. Most ids of one
    claim are consecutive: the database reads a few ranges instead of finding each id. Without ranges a drain takes
    18 % more CPU on PostgreSQL.
    """
    ranges = consecutive_runs(ids)
    if MIN_RANGE_LENGTH * len(ranges) > len(ids):
        return f"{column} IN ({','.join(map(str, ids))})"
    return f"({' OR '.join(f'{column} BETWEEN {first} AND {last}' for first, last in ranges)})"


def consecutive_runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last id of each range without a gap."""
    ranges = []
    first = last = ids[0]
    for each in ids:
        if each > last + 1:
            ranges.append((first, last))
            first = each
        last = each
    return [*ranges, (first, last)]


def numbered_parameters(values: Iterable[Any], prefix: str = "key") -> dict[str, Any]:
    """The values under the names key_0, key_1, …, for a list that `placeholders` writes."""
    return {f"{prefix}_{number}": value for number, value in enumerate(values)}


def placeholders(names: Iterable[str]) -> str:
    """The list for `IN (…)`: `:key_0, :key_1`."""
    return ", ".join(f":{name}" for name in names)


AnyConnection = Union[Connection, "ForeignConnection"]  # a quoted name has no |

_SUPPORTED = (
    "a SQLAlchemy Connection or Session, Django's connection, or a PyMySQL, psycopg, psycopg2 or sqlite3 connection"
)
_NOT_ASYNC = (
    "a connection that is not async: with SQLAlchemy's AsyncSession or AsyncConnection, write "
    "`await session.run_sync(lambda sync: enqueue(…, connection=sync))`; with other async drivers, INSERT the job "
    "by plain SQL"
)
_NOT_MYSQLCLIENT = (
    "a PyMySQL connection or a SQLAlchemy Connection; on one of mysqlclient, which Django uses, INSERT the job by "
    "plain SQL"
)


def open_connection(given: Any) -> AnyConnection:
    """From a SQLAlchemy Connection or Session, Django's connection, a driver connection, or a Connection of ours."""
    if isinstance(given, Connection):
        return given
    if callable(getattr(given, "ensure_connection", None)):  # Django's
        given.ensure_connection()
        return open_connection(given.connection)
    if type(given).__module__.startswith("MySQLdb."):
        raise BadField("connection", type(given).__name__, _NOT_MYSQLCLIENT)
    if _is_async(given):
        raise BadField("connection", type(given).__name__, _NOT_ASYNC)
    dialect = dialect_of_driver(given)
    return _open_sqlalchemy(given) if dialect is None else Connection(given, dialect)


def _is_async(given: Any) -> bool:
    """Its methods return coroutines: a statement that no code awaits would silently not be executed."""
    from inspect import iscoroutinefunction  # slow to import, and only applications pass their own connections

    return iscoroutinefunction(getattr(given, "execute", None)) or iscoroutinefunction(getattr(given, "commit", None))


def _open_sqlalchemy(given: Any) -> "ForeignConnection":
    if callable(getattr(given, "get_bind", None)) and callable(getattr(given, "connection", None)):  # an ORM Session
        given = given.connection()
    name = getattr(getattr(given, "dialect", None), "name", None)
    if name not in DIALECTS or not callable(getattr(given, "exec_driver_sql", None)):
        raise BadField("connection", type(given).__name__, _SUPPORTED)
    from mayfly.db.sqlalchemy import ForeignConnection  # SQLAlchemy is imported already, or `given` would not exist

    return ForeignConnection(given, dialect_named(name))


class ConnectionPool:
    """Last in, first out. Thread-safe without a lock: pop and append of a list are atomic.

    A semaphore is Python code, and would cost one or two microseconds per job with ack="each".
    """

    def __init__(self, connect: Callable[[], Connection], max_connections: int) -> None:
        self._connect = connect
        self._max = max_connections
        self._free: list[Connection | None] = [None] * max_connections  # slots: an open connection, or none yet

    def take(self) -> Connection:
        try:
            free = self._free.pop()
        except IndexError:
            free = self._wait()
        if free is not None and self._is_usable(free):
            return free
        try:
            return self._connect()
        except BaseException:
            self._free_slot()
            raise

    def _wait(self) -> Connection | None:
        until = monotonic() + WAIT_TIMEOUT_SECONDS
        while monotonic() < until:
            pause_between(*POLL_SECONDS)
            with suppress(IndexError):
                return self._free.pop()
        raise ConnectionsUsedUp(self._max, WAIT_TIMEOUT_SECONDS)

    def put_back(self, connection: Connection) -> None:
        connection.idle_since = monotonic()
        self._free.append(connection)

    def _is_usable(self, connection: Connection) -> bool:
        """A connection that was idle for long is pinged: once begun, a transaction cannot move to another one."""
        if monotonic() - connection.idle_since < MAX_UNCHECKED_IDLE_SECONDS:
            return True
        if connection.dialect.is_alive(connection.raw):
            return True
        _close(connection)
        return False

    def discard(self, connection: Connection) -> None:
        _close(connection)
        self._free_slot()

    def forget_idle(self) -> None:
        """Close unused connections. Other threads may take and return some at the same time."""
        slots = 0
        with suppress(IndexError):
            while True:
                idle = self._free.pop()
                slots += 1
                if idle is not None:
                    _close(idle)
        self._free[:0] = [None] * slots

    def reset(self) -> None:
        """Forget every connection without closing it."""
        self._free = [None] * self._max

    def close(self) -> None:
        for slot, connection in enumerate(self._free):
            if connection is not None:
                _close(connection)
                self._free[slot] = None

    def _free_slot(self) -> None:
        """At the bottom of the stack: open connections are taken first."""
        self._free.insert(0, None)


def _close(connection: Connection) -> None:
    """Ignores errors: the connection may be broken already."""
    with suppress(connection.dialect.errors):
        connection.raw.close()
