"""The limits as `mayfly limits` lists them: each key with what is used of it and when it opens."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.format import table
from mayfly.limits.limit import AT_ONCE
from mayfly.limits.store import HOLDERS, is_held

COLUMNS = "SELECT limit_key, span, most, used, opens_at FROM mayfly_limits"
ROWS = f"{COLUMNS} ORDER BY limit_key, span"
PAGE = f"{COLUMNS} WHERE limit_key >= :first ORDER BY limit_key, span LIMIT :size"
OPEN = f"{COLUMNS} WHERE opens_at > :now ORDER BY opens_at DESC LIMIT :size"

HEADING = ("key", "per", "used", "most", "opens at (UTC)")


class LimitView(NamedTuple):
    key: str
    span: str
    used: int
    most: int
    opens_at: datetime | None  # None: now, or when a job ends

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.most

    def cells(self) -> tuple[str, ...]:
        """As a line of the table."""
        opens_at = f"{self.opens_at:%Y-%m-%d %H:%M:%S}" if self.opens_at else ""
        return self.key, self.span, str(self.used), str(self.most), opens_at

    def facts(self) -> dict[str, object]:
        """As JSON shows it."""
        opens_at = self.opens_at.isoformat() if self.opens_at else None
        return {"key": self.key, "per": self.span, "used": self.used, "most": self.most, "opens_at": opens_at}


def list_limits(connection: Connection, now: datetime) -> Iterator[LimitView]:
    return _limit_view(connection, now, connection.execute(ROWS).all())


def limits_page(
    connection: Connection, now: datetime, size: int, first: str = ""
) -> tuple[list[LimitView], str | None]:
    """The keys from the first on, and with which key the next page begins: those of customers may be many."""
    rows = connection.execute(PAGE, {"first": first, "size": size + 1}).all()
    following = rows[size][0] if len(rows) > size else None
    whole = [row for row in rows if row[0] != following] or rows[:size]  # a key is not cut in two
    return list(_limit_view(connection, now, whole)), following


def used_up(connection: Connection, now: datetime, size: int) -> list[LimitView]:
    """Of the windows that end last, and of what is held just now."""
    windows = connection.execute(OPEN, {"now": now, "size": size}).all()
    held = sorted({row[0] for row in connection.execute(HOLDERS).all()})[:size]
    keys = {f"key_{number}": key for number, key in enumerate(held)}
    at_once = f"{COLUMNS} WHERE span = '{AT_ONCE}' AND limit_key IN ({', '.join(f':{each}' for each in keys)})"
    rows = [*windows, *(connection.execute(at_once, keys).all() if keys else [])]
    found = {each for each in _limit_view(connection, now, rows) if each.is_used_up}
    return sorted(found, key=lambda each: (each.key, each.span))


def _limit_view(connection: Connection, now: datetime, rows: Sequence[Sequence[Any]]) -> Iterator[LimitView]:
    held: Counter[str] = Counter()
    for key, _worker_id, slots, own_lease, runner_lease, finished_at in connection.execute(HOLDERS).all():
        if is_held(own_lease, runner_lease, finished_at, now):
            held[key] += slots
    for key, span, most, used, ends_at in rows:
        if span == AT_ONCE:
            yield LimitView(key, span, held[key], most, None)
        elif utc_from_driver(ends_at) <= now:
            yield LimitView(key, span, 0, most, None)
        else:
            yield LimitView(key, span, used, most, utc_from_driver(ends_at))


def limits_table(listed: Sequence[LimitView]) -> str:
    return table([HEADING, *(each.cells() for each in listed)])
