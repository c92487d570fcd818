"""The rows of limits: one a key and span, locked by whoever takes, and one a key and runner that holds slots of it.

Lock order: rows of mayfly_limits in the order of their keys, then nothing that somebody else waits for.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.dialects import Dialect, utc_from_driver
from mayfly.limits.limit import LimitKey
from mayfly.limits.windows import RateWindow

LIMIT = ("limit_key", "span")
COUNTED = (*LIMIT, "most", "used", "opens_at")
SLOT = ("limit_key", "worker_id")
HELD = (*SLOT, "held", "lease_until")

# A new key's window has ended for everybody: to one whose clock is a moment behind it would be open, and what he
# takes of it would be forgotten when the next one opens it.
WINDOW_GRACE = timedelta(minutes=1)

FREE = "DELETE FROM mayfly_slots WHERE limit_key = :limit_key AND worker_id = :worker_id"


class LimitHolder(NamedTuple):
    """A runner, and until when its slots are its own if no row of mayfly_runners tells."""

    worker_id: str
    lease_until: datetime


def lock_windows(connection: Connection, keys: Sequence[str]) -> dict[tuple[str, str], RateWindow]:
    """Of these keys, in ascending order, so that two who take several never wait for each other crosswise."""
    found = connection.execute(lock_statement(connection.dialect, len(keys)), _named(keys)).all()
    return {
        (key, span): RateWindow(most, used, opens_at and utc_from_driver(opens_at))
        for key, span, most, used, opens_at in found
    }


@cache
def lock_statement(dialect: Dialect, keys: int) -> str:
    which = f"limit_key IN ({_listed(keys)}) ORDER BY limit_key, span"
    return f"SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE {which}{dialect.row_lock}"


def add_missing(connection: Connection, needs: Iterable[LimitKey], now: datetime) -> None:
    """In a transaction of its own: MySQL's INSERT IGNORE locks what it finds, and two who have read it never end."""
    statement = connection.dialect.insert_missing("mayfly_limits", LIMIT, COUNTED)
    for key, limit in sorted(needs, key=lambda need: need.place):
        row = {"limit_key": key, "span": limit.span, "most": limit.most, "used": 0, "opens_at": now - WINDOW_GRACE}
        connection.execute(statement, row)


def write_windows(
    connection: Connection, needs: Iterable[LimitKey], windows: Mapping[tuple[str, str], RateWindow]
) -> None:
    rows = [
        {"limit_key": key, "span": limit.span, "most": limit.most, "used": used, "opens_at": opens_at}
        for key, limit in needs
        for _most, used, opens_at in [windows[key, limit.span]]
    ]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_limits", LIMIT, COUNTED), rows)


def slots_of_others(connection: Connection, keys: Sequence[str], worker_id: str, now: datetime) -> Counter[str]:
    """How many of each key are held by runners that live. What the dead have left is swept away."""
    held: Counter[str] = Counter()
    gone: list[dict[str, Any]] = []
    found = connection.execute(holders_statement(len(keys)), _named(keys)).all()
    for key, holder, slots, own_lease, runner_lease, finished_at in found:
        if holder == worker_id:
            continue
        if is_held(own_lease, runner_lease, finished_at, now):
            held[key] += slots
        else:
            gone.append({"limit_key": key, "worker_id": holder})
    for each in gone:
        connection.execute(FREE, each)
    return held


@cache
def holders_statement(keys: int) -> str:
    return f"{HOLDERS} WHERE mayfly_slots.limit_key IN ({_listed(keys)})"


HOLDERS = (
    "SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until,"
    " mayfly_runners.lease_until, mayfly_runners.finished_at"
    " FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id"
)


def is_held(own_lease: Any, runner_lease: Any, finished_at: Any, now: datetime) -> bool:
    """The runner's row decides, where there is one: it tells of its end, and of a lease that was renewed."""
    return finished_at is None and utc_from_driver(runner_lease or own_lease) > now


def write_slots(connection: Connection, holder: LimitHolder, slots: Mapping[str, int]) -> None:
    """Absolute figures of one holder: writing them twice changes nothing."""
    rows = [
        {"limit_key": key, "worker_id": holder.worker_id, "held": held, "lease_until": holder.lease_until}
        for key, held in sorted(slots.items())
    ]
    for row in rows:
        if row["held"]:
            connection.execute(connection.dialect.upsert("mayfly_slots", SLOT, HELD), row)
        else:
            connection.execute(FREE, {name: row[name] for name in SLOT})


def _listed(count: int) -> str:
    return ", ".join(f":key_{number}" for number in range(count))


def _named(keys: Sequence[str]) -> dict[str, str]:
    return {f"key_{number}": key for number, key in enumerate(keys)}
