"""The rows of cycles, and of lanes: how often one was passed over, and what somebody has set for it."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver

LANES = "SELECT lane, passed_over, max_workers, set_at, set_by FROM mayfly_lanes"


class KnownLane(NamedTuple):
    """What the table has of a lane."""

    passed_over: int = 0  # cycles in a row
    max_workers: int | None = None  # as somebody has set it; None: as the settings say
    set_at: datetime | None = None
    set_by: str | None = None


def open_cycle(connection: Connection, cycle_id: int, host: str, now: datetime) -> None:
    row = {"id": cycle_id, "host": host, "started_at": now}
    connection.execute(connection.dialect.upsert("mayfly_cycles", ("id",), row), row)


def close_cycle(connection: Connection, cycle_id: int, figures: Mapping[str, Any], now: datetime) -> bool:
    """Whether it was open."""
    values = {"finished_at": now, **figures}
    closing = f"UPDATE mayfly_cycles SET {connection.dialect.assignments(values)} WHERE id = :cycle_id"
    return connection.execute(closing, {**values, "cycle_id": cycle_id}).rowcount == 1


def known_lanes(connection: Connection) -> dict[str, KnownLane]:
    """Few rows, if any: to read them all is one look."""
    return {
        lane: KnownLane(passed_over, max_workers, set_at and utc_from_driver(set_at), set_by)
        for lane, passed_over, max_workers, set_at, set_by in connection.execute(LANES).all()
    }


def record_passed_over(connection: Connection, before: Mapping[str, KnownLane], passed_over: Collection[str]) -> None:
    """Count up the lanes that had to wait, clear the others; nothing is written while nobody waits."""
    now_waiting = {lane: before.get(lane, KnownLane()).passed_over + 1 for lane in passed_over}
    served = {lane: 0 for lane, known in before.items() if known.passed_over and lane not in passed_over}
    rows = [{"lane": lane, "passed_over": number} for lane, number in {**now_waiting, **served}.items()]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_lanes", ("lane",), rows[0]), rows)
