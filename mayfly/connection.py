"""What statements are executed on: a driver's connection, ours or an application's, in the words of its database."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mayfly.dialect import Dialect

Values = Mapping[str, Any]
NONE: Values = {}  # a plain one: drivers take no other
PLAIN = frozenset({str, int, float, type(None)})


class Result:
    """The answer to one statement; rows are tuples, in the order in which the statement names its columns."""

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
        if row is None:
            return None
        # Applications often ask their driver for rows as dictionaries.
        return next(iter(row.values())) if isinstance(row, Mapping) else row[0]


class Connection:
    """A driver's connection. Statements are plain SQL with parameters as `:name`."""

    __slots__ = ("dialect", "engine", "raw")

    def __init__(self, raw: Any, dialect: Dialect) -> None:
        self.raw = raw
        self.dialect = dialect
        self.engine: Any = None  # SQLAlchemy's, once this connection was lent to a handler: see mayfly.lending

    def execute(self, statement: str, values: Values = NONE, ids: Iterable[int] | None = None) -> Result:
        """`{ids}` in the statement stands for the ids: numbers need no quoting, and a thousand parameters would cost
        a runner more than all the rest of it. Sorted: those who lock the same rows lock them in the same order.
        """
        dialect = self.dialect
        text = dialect.rendered(statement)
        if ids is not None:
            text = text.replace("{ids}", ",".join(map(str, sorted(ids))))
        cursor = self.raw.cursor()
        cursor.execute(text, bound(dialect, values))
        return Result(cursor)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> Result:
        dialect = self.dialect
        cursor = self.raw.cursor()
        cursor.executemany(dialect.rendered(statement), [bound(dialect, row) for row in rows])
        return Result(cursor)

    def execute_rows(self, head: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], rest: str) -> Result:
        """An INSERT of many rows by one statement: drivers take them one by one otherwise, at twice the price."""
        row = f"({', '.join([self.dialect.mark] * len(columns))})"
        values = [value for each in rows for value in each]
        if not PLAIN.issuperset(map(type, values)):
            values = list(map(self.dialect.bound, values))
        cursor = self.raw.cursor()
        cursor.execute(f"{head}{', '.join([row] * len(rows))}{rest}", values)
        return Result(cursor)


def bound(dialect: Dialect, values: Values) -> Values:
    """As the driver takes them. Texts and numbers it takes as they are, and most rows have nothing else."""
    if PLAIN.issuperset(map(type, values.values())):
        return values
    return {name: dialect.bound(value) for name, value in values.items()}
