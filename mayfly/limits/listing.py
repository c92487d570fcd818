"""The limits as `mayfly limits` lists them: each key with what is used of it and when it opens."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.limits.limit import AT_ONCE
from mayfly.limits.store import HOLDERS, is_held
from mayfly.terminal import table

ROWS = "SELECT limit_key, span, most, used, opens_at FROM mayfly_limits ORDER BY limit_key, span"


HEADING = ("key", "per", "used", "most", "opens at (UTC)")


class Listed(NamedTuple):
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


def list_limits(connection: Connection, now: datetime) -> Iterator[Listed]:
    held: Counter[str] = Counter()
    for key, _worker_id, slots, own_lease, runner_lease, finished_at in connection.execute(HOLDERS).all():
        if is_held(own_lease, runner_lease, finished_at, now):
            held[key] += slots
    for key, span, most, used, ends_at in connection.execute(ROWS).all():
        if span == AT_ONCE:
            yield Listed(key, span, held[key], most, None)
        elif utc_from_driver(ends_at) <= now:
            yield Listed(key, span, 0, most, None)
        else:
            yield Listed(key, span, used, most, utc_from_driver(ends_at))


def as_text(listed: Sequence[Listed]) -> str:
    return table([HEADING, *(each.cells() for each in listed)])
