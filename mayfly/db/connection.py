"""Execute plain SQL on a driver's connection, our own or an application's, in the dialect of its database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mayfly.db.dialects import DIALECTS, PLAIN, Dialect, Values, dialect_named, dialect_of_driver
from mayfly.errors import BadField

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

    def execute_many(self, statement: str, rows: Sequence[Values]) -> Result:
        dialect = self.dialect
        cursor = self.raw.cursor()
        cursor.executemany(dialect.rendered(statement), [dialect.all_bound(row) for row in rows])
        return Result(cursor)

    def execute_rows(self, head: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rest: str) -> Result:
        """An INSERT of many rows by one statement: drivers would send them one by one, which takes twice as long."""
        row = f"({', '.join([self.dialect.mark] * len(columns))})"
        values = [value for each in rows for value in each]
        if not PLAIN.issuperset(map(type, values)):
            values = list(map(self.dialect.bound, values))
        cursor = self.raw.cursor()
        cursor.execute(f"{head}{', '.join([row] * len(rows))}{rest}", values)
        return Result(cursor)


def in_list(column: str, ids: Sequence[int]) -> str:
    """Ids in ascending order, so that transactions that lock the same rows lock them in the same order.

    Numbers need no quoting, and a thousand parameters would cost more than the rest of the statement. If most are
    consecutive, as those of one claim are, the database reads a few ranges instead of looking up each id: without
    ranges a drain costs 18 % more CPU on PostgreSQL.
    """
    ranges = consecutive_runs(ids)
    if MIN_RANGE_LENGTH * len(ranges) > len(ids):
        return f"{column} IN ({','.join(map(str, ids))})"
    return f"({' OR '.join(f'{column} BETWEEN {first} AND {last}' for first, last in ranges)})"


def consecutive_runs(ids: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last of each range without a gap."""
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
    """What stands in `IN (…)`: `:key_0, :key_1`."""
    return ", ".join(f":{name}" for name in names)


class ForeignConnection:
    """The part of a Connection that an insert needs, on a connection of SQLAlchemy with any driver."""

    def __init__(self, given: Any, dialect: Dialect) -> None:
        self.dialect = dialect
        self._given = given

    def execute(self, statement: str, values: Values = NO_VALUES) -> Any:
        from sqlalchemy import text  # imported already, or there would be none of its connections

        return self._given.execute(text(statement), self.dialect.all_bound(values))

    def execute_rows(self, head: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rest: str) -> Any:
        from sqlalchemy import text

        statement = f"{head}({', '.join(f':{name}' for name in columns)}){rest}"
        named = (dict(zip(columns, row, strict=True)) for row in rows)
        return self._given.execute(text(statement), [self.dialect.all_bound(row) for row in named])


AnyConnection = Connection | ForeignConnection


def open_connection(given: Any) -> AnyConnection:
    """From a SQLAlchemy Connection or Session, a driver connection, or what job.write passes."""
    if isinstance(given, Connection):
        return given
    dialect = dialect_of_driver(given)
    if dialect is not None:
        return Connection(given, dialect)
    if callable(getattr(given, "get_bind", None)) and callable(getattr(given, "connection", None)):  # an ORM Session
        given = given.connection()
    name = getattr(getattr(given, "dialect", None), "name", None)
    if name not in DIALECTS or not callable(getattr(given, "exec_driver_sql", None)):
        raise BadField(
            "connection",
            type(given).__name__,
            "a SQLAlchemy Connection or Session, or a PyMySQL, psycopg or sqlite3 connection",
        )
    return ForeignConnection(given, dialect_named(name))
