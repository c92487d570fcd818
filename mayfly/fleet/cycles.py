"""The rows of cycles, and of lanes: how often a lane was passed over, and the limit an operator has set for it."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver

LANES = "SELECT lane, passed_over, max_workers, set_at, set_by FROM mayfly_lanes"
ANY_LIVE_RUNNER = "SELECT worker_id FROM mayfly_runners WHERE finished_at IS NULL LIMIT 1"


class KnownLane(NamedTuple):
    """The row of a lane."""

    passed_over: int = 0  # cycles in a row
    max_workers: int | None = None  # set by an operator; None: the setting counts
    set_at: datetime | None = None
    set_by: str | None = None


def open_cycle(connection: Connection, cycle_id: int, host: str, now: datetime) -> None:
    row = {"id": cycle_id, "host": host, "started_at": now}
    connection.execute(connection.dialect.upsert("mayfly_cycles", ("id",), row), row)


def close_cycle(connection: Connection, cycle_id: int, figures: Mapping[str, Any], now: datetime) -> bool:
    """False if there is no row of this cycle."""
    values = {"finished_at": now, **figures}
    closing = f"UPDATE mayfly_cycles SET {connection.dialect.assignments(values)} WHERE id = :cycle_id"
    return connection.execute(closing, {**values, "cycle_id": cycle_id}).rowcount == 1


def has_live_runner(connection: Connection) -> bool:
    """Whether a runner of any host has no recorded end; it may be dead all the same."""
    return connection.execute(ANY_LIVE_RUNNER).first() is not None


def known_lanes(connection: Connection) -> dict[str, KnownLane]:
    """All rows in one query: there are few, if any."""
    return {
        lane: KnownLane(passed_over, max_workers, set_at and utc_from_driver(set_at), set_by)
        for lane, passed_over, max_workers, set_at, set_by in connection.execute(LANES).all()
    }


def record_passed_over(connection: Connection, before: Mapping[str, KnownLane], passed_over: Collection[str]) -> None:
    """Increment the lanes that got no slot, reset the others; writes nothing if neither changes."""
    now_waiting = {lane: before.get(lane, KnownLane()).passed_over + 1 for lane in passed_over}
    served = {lane: 0 for lane, known in before.items() if known.passed_over and lane not in passed_over}
    rows = [{"lane": lane, "passed_over": number} for lane, number in {**now_waiting, **served}.items()]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_lanes", ("lane",), rows[0]), rows)
