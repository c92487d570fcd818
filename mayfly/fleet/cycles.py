"""The rows of cycles, and how often a lane was passed over."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from mayfly.connection import Connection


def open_cycle(connection: Connection, cycle_id: int, host: str, now: datetime) -> None:
    row = {"id": cycle_id, "host": host, "started_at": now}
    connection.execute(connection.dialect.upsert("mayfly_cycles", ("id",), row), row)


def close_cycle(connection: Connection, cycle_id: int, figures: Mapping[str, Any], now: datetime) -> bool:
    """Whether it was open."""
    values = {"finished_at": now, **figures}
    closing = f"UPDATE mayfly_cycles SET {connection.dialect.assignments(values)} WHERE id = :cycle_id"
    return connection.execute(closing, {**values, "cycle_id": cycle_id}).rowcount == 1


def passed_over_counts(connection: Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT lane, passed_over FROM mayfly_lanes").all())


def note_passed_over(connection: Connection, before: Mapping[str, int], passed_over: Collection[str]) -> None:
    """Count up the lanes that had to wait, clear the others; nothing is written while nobody waits."""
    now_waiting = {lane: before.get(lane, 0) + 1 for lane in passed_over}
    served = {lane: 0 for lane, number in before.items() if number and lane not in passed_over}
    rows = [{"lane": lane, "passed_over": number} for lane, number in {**now_waiting, **served}.items()]
    if rows:
        connection.execute_many(connection.dialect.upsert("mayfly_lanes", ("lane",), rows[0]), rows)
