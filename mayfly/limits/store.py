"""The rows of limits: mayfly_limits per key and span, locked in order to acquire; mayfly_slots per key and runner.

Lock order: rows of mayfly_limits by key; no other lock is taken while they are held.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.dialects import utc_from_driver
from mayfly.limits.limit import LimitKey
from mayfly.limits.windows import RateWindow

LIMIT = ("limit_key", "span")
COUNTED = (*LIMIT, "most", "used", "opens_at")

# The window of a new key has ended already: a host with a slow clock would otherwise count into a window that another
# host resets.
WINDOW_GRACE = timedelta(minutes=1)

HOLDERS = (
    "SELECT mayfly_slots.limit_key, mayfly_slots.worker_id, mayfly_slots.held, mayfly_slots.lease_until,"
    " mayfly_runners.lease_until, mayfly_runners.finished_at"
    " FROM mayfly_slots LEFT JOIN mayfly_runners ON mayfly_runners.worker_id = mayfly_slots.worker_id"
)
RETURN_UNIT = (
    "UPDATE mayfly_limits SET used = used - 1"
    " WHERE limit_key = :limit_key AND span = :span AND opens_at = :opens_at AND used > 0"
)
FREE = "DELETE FROM mayfly_slots WHERE limit_key = :limit_key AND worker_id = :worker_id"


class LimitHolder(NamedTuple):
    """A runner, and until when it holds its slots if it has no row in mayfly_runners."""

    worker_id: str
    lease_until: datetime


class WindowUnit(NamedTuple):
    """A unit of a rate, and the window from which it was acquired."""

    limit_key: str
    span: str
    opens_at: datetime | None


def return_units(connection: Connection, units: Iterable[WindowUnit]) -> None:
    """Changes nothing if the window is over: the row counts another one."""
    for unit in sorted(units):
        connection.execute(RETURN_UNIT, unit._asdict())


def lock_windows(connection: Connection, keys: Sequence[str]) -> dict[tuple[str, str], RateWindow]:
    """In ascending order of the keys, so that two runners never deadlock."""
    values = numbered_parameters(keys)
    statement = (
        "SELECT limit_key, span, most, used, opens_at FROM mayfly_limits"
        f" WHERE limit_key IN ({placeholders(values)}) ORDER BY limit_key, span{connection.dialect.row_lock}"
    )
    found = connection.execute(statement, values).all()
    return {
        (key, span): RateWindow(most, used, opens_at and utc_from_driver(opens_at))
        for key, span, most, used, opens_at in found
    }


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
    """The number of slots of each key that other live runners hold. Deletes rows of dead runners."""
    held: Counter[str] = Counter()
    values = numbered_parameters(keys)
    found = connection.execute(f"{HOLDERS} WHERE mayfly_slots.limit_key IN ({placeholders(values)})", values).all()
    for key, holder, slots, own_lease, runner_lease, finished_at in found:
        if holder == worker_id:
            continue
        if is_held(own_lease, runner_lease, finished_at, now):
            held[key] += slots
        else:
            connection.execute(FREE, {"limit_key": key, "worker_id": holder})
    return held


def is_held(own_lease: Any, runner_lease: Any, finished_at: Any, now: datetime) -> bool:
    """If the runner has a row, that decides: it has the runner's end and its renewed lease."""
    return finished_at is None and utc_from_driver(runner_lease or own_lease) > now


def write_slots(connection: Connection, holder: LimitHolder, slots: Mapping[str, int]) -> None:
    """Absolute figures of one holder: writing them twice changes nothing."""
    for key, held in sorted(slots.items()):
        slot = {"limit_key": key, "worker_id": holder.worker_id}
        row = {**slot, "held": held, "lease_until": holder.lease_until}
        if held:
            connection.execute(connection.dialect.upsert("mayfly_slots", slot, row), row)
        else:
            connection.execute(FREE, slot)
