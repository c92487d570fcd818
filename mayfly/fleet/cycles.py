"""The rows of cycles, the totals of their jobs, and how often a lane was passed over."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, Select, Update, delete, select, update

from mayfly import dialect
from mayfly.jobs.totals import write_totals
from mayfly.schema import cycles, lanes, totals
from mayfly.tally import Count, Key, Tally, add, parse_histogram

ADDED_UP = ""  # the writer's name on totals that stand for the whole cycle


def open_cycle(connection: Connection, cycle_id: int, host: str, now: datetime) -> None:
    row = {"id": cycle_id, "host": host, "started_at": now}
    connection.execute(open_statement(connection.dialect), [row])


def open_statement(for_dialect: Dialect) -> Insert:
    return dialect.upsert(for_dialect, cycles, ("id",), ("id", "host", "started_at"))


def close_cycle(connection: Connection, cycle_id: int, figures: Mapping[str, Any], now: datetime) -> None:
    connection.execute(close_statement(cycle_id, figures, now))


def close_statement(cycle_id: int, figures: Mapping[str, Any], now: datetime) -> Update:
    return update(cycles).where(cycles.c.id == cycle_id).values(finished_at=now, **figures)


def add_up_totals(connection: Connection, cycle_id: int) -> Tally:
    """Replace what each runner wrote by one row a lane, type and outcome. Who reads before, adds up himself."""
    tally: dict[Key, Count] = {}
    for row in connection.execute(select(totals).where(totals.c.cycle_id == cycle_id)):
        count = Count(row.jobs, parse_histogram(row.durations), parse_histogram(row.waits))
        tally = add(tally, {(row.lane, row.type, row.outcome): count})
    connection.execute(delete(totals).where(totals.c.cycle_id == cycle_id))
    write_totals(connection, cycle_id, ADDED_UP, tally)
    return tally


def passed_over_counts(connection: Connection) -> dict[str, int]:
    return {row.lane: row.passed_over for row in connection.execute(passed_over_statement())}


def passed_over_statement() -> Select[Any]:
    return select(lanes)


def note_passed_over(connection: Connection, before: Mapping[str, int], passed_over: Collection[str]) -> None:
    """Count up the lanes that had to wait, clear the others; nothing is written while nobody waits."""
    now_waiting = {lane: before.get(lane, 0) + 1 for lane in passed_over}
    served = {lane: 0 for lane, number in before.items() if number and lane not in passed_over}
    rows = [{"lane": lane, "passed_over": number} for lane, number in {**now_waiting, **served}.items()]
    if rows:
        connection.execute(dialect.upsert(connection.dialect, lanes, ("lane",), rows[0]), rows)
