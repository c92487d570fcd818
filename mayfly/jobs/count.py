"""Count what is due, lane by lane, without ever reading more of a lane than the answer needs."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, literal, select, union_all
from sqlalchemy.sql.selectable import CompoundSelect

from mayfly.jobs.claim import next_due
from mayfly.schema import PRIORITIES, JobTable

COUNT_AT_LEAST = 1000
LANES_PER_STATEMENT = 100  # with three priorities each; SQLite takes 500 SELECTs in one statement


@dataclass(frozen=True)
class Due:
    lane: str
    pending: int
    capped: bool  # there may be more: the count stopped here

    def plus(self, more: int) -> "Due":
        return replace(self, pending=self.pending + more)

    def __str__(self) -> str:
        return f"{self.pending}+" if self.capped else str(self.pending)


def count_due(
    connection: Connection,
    jobs: JobTable,
    now: datetime,
    cap_of: Callable[[str], int] = lambda _lane: COUNT_AT_LEAST,
) -> list[Due]:
    """The lanes that have any rows, each with its due jobs, counted to its cap."""
    caps = {lane: cap_of(lane) for lane in find_lanes(connection, jobs)}
    lanes = list(caps)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = {lane: caps[lane] for lane in lanes[start : start + LANES_PER_STATEMENT]}
        for row in connection.execute(count_statement(jobs, part, now)):
            counted[row.lane] += row.pending
    return [Due(lane, min(counted[lane], cap), counted[lane] > cap) for lane, cap in caps.items()]


def find_lanes(connection: Connection, jobs: JobTable) -> list[str]:
    """The lanes that have any rows: hop along the claim index, one probe a lane, however many rows lie between."""
    lanes: list[str] = []
    lane = connection.execute(next_lane_statement(jobs)).scalar()
    while lane is not None:
        lanes.append(lane)
        lane = connection.execute(next_lane_statement(jobs, lane)).scalar()
    return lanes


def next_lane_statement(jobs: JobTable, after: str = "") -> Select[Any]:
    """Beyond a constant, MIN is one probe everywhere. In a recursive CTE, MariaDB scans the index for each lane."""
    return select(func.min(jobs.c.lane)).where(jobs.c.lane > after)


def count_statement(jobs: JobTable, caps: Mapping[str, int], now: datetime) -> CompoundSelect[Any]:
    """One statement for several lanes: a row for each lane and priority, which stops one beyond the lane's cap."""
    parts = []
    for number, (lane, cap) in enumerate(caps.items()):
        for priority in PRIORITIES:
            due = next_due(select(jobs.c.id), jobs, lane, priority, cap + 1, now).subquery(f"due_{number}_{priority}")
            parts.append(select(literal(lane).label("lane"), func.count().label("pending")).select_from(due))
    return union_all(*parts)
