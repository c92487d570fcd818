"""A range of an index: jobs in the order of its key, read page by page, exact where times are equal."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.dialect import Dialect, utc_from_driver, utc_text
from mayfly.errors import BadField

MOST_NUMBER = 2**63 - 1  # that every database takes
Position = tuple[Any, ...]  # values of a key: where a page has ended
Found = Sequence[tuple[Any, ...]]  # the id of each job, and the values of its key


class Range(NamedTuple):
    source: str  # what stands behind FROM
    id: str
    key: tuple[str, ...]  # the columns by which the index is ordered: a time and a number, or a number alone
    where: str  # what the index knows
    values: Mapping[str, Any]
    also: str = ""  # and what it does not know
    ids: Sequence[int] | None = None
    indexed: str = ""  # the table of the index, where `source` joins another to it

    def find(
        self,
        connection: Connection,
        size: int,
        after: Position | None = None,
        newest_first: bool = False,
        floor: Position | None = None,
    ) -> Found:
        """The next ones beyond a position, and none below the floor."""
        statement = self.statement(after is not None, newest_first, floor is not None)
        return connection.execute(statement, self.given(size, after, floor), self.ids).all()

    def floor(self, connection: Connection, depth: int, after: Position | None = None) -> Position | None:
        """Where so many rows have been passed, newest first, whatever they are; None if the index ends before."""
        bare = self._replace(also="", source=self.indexed or self.source)
        whole = bare.statement(after is not None, newest_first=True)
        looking = f"{whole.removesuffix(':size')}1 OFFSET :size"
        found = connection.execute(looking, self.given(depth - 1, after), self.ids).first()
        return None if found is None else position_of(found)

    def number(self, connection: Connection, most: int, floor: Position | None = None) -> int:
        """How many there are, none below the floor counted."""
        order = ", ".join(self.key)
        rest = self._rest(past(self.key, ">", "floor", or_equal=True) if floor is not None else "")
        counting = f"SELECT COUNT(*) FROM (SELECT {self.id} {rest} ORDER BY {order} LIMIT :size) AS found"
        return int(connection.execute(counting, self.given(most, floor=floor), self.ids).scalar())

    def statement(self, goes_on: bool = False, newest_first: bool = False, has_floor: bool = False) -> str:
        beyond, direction = ("<", " DESC") if newest_first else (">", "")
        after = past(self.key, beyond, "after") if goes_on else ""
        floor = past(self.key, ">", "floor", or_equal=True) if has_floor else ""
        order = ", ".join(f"{column}{direction}" for column in self.key)
        return f"SELECT {', '.join((self.id, *self.key))} {self._rest(after, floor)} ORDER BY {order} LIMIT :size"

    def newest(self, columns: str) -> str:
        """Other columns of the newest rows."""
        order = ", ".join(f"{column} DESC" for column in self.key)
        return f"SELECT {columns} {self._rest()} ORDER BY {order} LIMIT :size"

    def _rest(self, *further: str) -> str:
        conditions = " AND ".join(each for each in (self.where, self.also, *further) if each)
        return f"FROM {self.source} WHERE {conditions}" if conditions else f"FROM {self.source}"

    def given(self, size: int, after: Position | None = None, floor: Position | None = None) -> Mapping[str, Any]:
        named = {f"after_{number}": value for number, value in enumerate(after or ())}
        named |= {f"floor_{number}": value for number, value in enumerate(floor or ())}
        return {**self.values, **named, "size": size}


def not_empty(connection: Connection, found: Sequence[Range], after: Position | None = None) -> list[Range]:
    """Those that have a row beyond the position, whatever it is: only they need a share of a search."""
    return [each for each in found if each.floor(connection, 1, after) is not None]


def past(key: Sequence[str], beyond: str, name: str, or_equal: bool = False) -> str:
    """Beyond the position of this name. The time stands alone too: so it is a range of the index."""
    equal = "=" if or_equal else ""
    if len(key) == 1:
        return f"{key[0]} {beyond}{equal} :{name}_0"
    time, number = key
    later = f"{time} {beyond} :{name}_0 OR {number} {beyond}{equal} :{name}_1"
    return f"{time} {beyond}= :{name}_0 AND ({later})"


def position_of(found: Sequence[Any]) -> Position:
    """Of a row that `find` gave. SQLite's times are texts, and stay what they are: it compares them as such."""
    return tuple(each if isinstance(each, str | int) else utc_from_driver(each) for each in found[1:])


def position_text(position: Position) -> str:
    """For whoever asks for the next page."""
    return "~".join(
        utc_text(each).replace(" ", "T") if isinstance(each, datetime) else str(each).replace(" ", "T")
        for each in position
    )


def read_position(dialect: Dialect, text: str, length: int) -> Position:
    *times, number = text.split("~")
    try:
        position = *(dialect.moment(each.replace("T", " ")) for each in times), int(number)
    except ValueError:
        position = ()
    if len(position) != length or abs(position[-1]) > MOST_NUMBER:
        raise BadField("after", text, "what the page before has given as next")
    return position
