"""The rows of limits: mayfly_limits per key and span, locked to acquire; mayfly_slots per key and runner.

Lock order: rows of mayfly_limits in the order of their keys; no other lock is taken while they are held.
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

# The window of a new key has ended already: a host with a slow clock would otherwise count into a window that another
# host resets.
WINDOW_GRACE = timedelta(minutes=1)

FREE = "DELETE FROM mayfly_slots WHERE limit_key = :limit_key AND worker_id = :worker_id"


class LimitHolder(NamedTuple):
    """A runner, and until when it holds its slots if it has no row in mayfly_runners."""

    worker_id: str
    lease_until: datetime


def lock_windows(connection: Connection, keys: Sequence[str]) -> dict[tuple[str, str], RateWindow]:
    """In ascending order of the keys, so that two runners never deadlock."""
    found = connection.execute(lock_statement(connection.dialect, len(keys)), _key_values(keys)).all()
    return {
        (key, span): RateWindow(most, used, opens_at and utc_from_driver(opens_at))
        for key, span, most, used, opens_at in found
    }


@cache
def lock_statement(dialect: Dialect, keys: int) -> str:
    which = f"limit_key IN ({_key_names(keys)}) ORDER BY limit_key, span"
    return f"SELECT limit_key, span, most, used, opens_at FROM mayfly_limits WHERE {which}{dialect.row_lock}"


def add_missing(connection: Connection, keys: Iterable[LimitKey], now: datetime) -> None:
    """In a transaction of its own: MySQL's INSERT IGNORE locks existing rows, and two readers would deadlock."""
    statement = connection.dialect.insert_missing("mayfly_limits", LIMIT, COUNTED)
    for key, limit in sorted(keys, key=lambda each: each.row_key):
        row = {"limit_key": key, "span": limit.span, "most": limit.most, "used": 0, "opens_at": now - WINDOW_GRACE}
        connection.execute(statement, row)


def write_windows(
    connection: Connection, keys: Iterable[LimitKey], windows: Mapping[tuple[str, str], RateWindow]
) -> None:
    rows = [
        {"limit_key": key, "span": limit.span, "most": limit.most, "used": used, "opens_at": opens_at}
        for key, limit in keys
        for _most, used, opens_at in [windows[key, limit.span]]
    ]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_limits", LIMIT, COUNTED), rows)


def slots_of_others(connection: Connection, keys: Sequence[str], worker_id: str, now: datetime) -> Counter[str]:
    """How many slots of each key live runners hold. Rows of dead runners are deleted."""
    held: Counter[str] = Counter()
    dead: list[dict[str, Any]] = []
    found = connection.execute(holders_statement(len(keys)), _key_values(keys)).all()
    for key, holder, slots, own_lease, runner_lease, finished_at in found:
        if holder == worker_id:
            continue
        if is_held(own_lease, runner_lease, finished_at, now):
            held[key] += slots
        else:
            dead.append({"limit_key": key, "worker_id": holder})
    for each in dead:
        connection.execute(FREE, each)
    return held


@cache
def holders_statement(keys: int) -> str:
    return f"{HOLDERS} WHERE mayfly_slots.limit_key IN ({_key_names(keys)})"


HOLDERS = (
    "SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until,"
    " mayfly_runners.lease_until, mayfly_runners.finished_at"
    " FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id"
)


def is_held(own_lease: Any, runner_lease: Any, finished_at: Any, now: datetime) -> bool:
    """The runner's row decides, if there is one: it has the end of the runner and a renewed lease."""
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


def _key_names(count: int) -> str:
    return ", ".join(f":key_{number}" for number in range(count))


def _key_values(keys: Sequence[str]) -> dict[str, str]:
    return {f"key_{number}": key for number, key in enumerate(keys)}
