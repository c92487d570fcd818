"""Count what is due, lane by lane, without ever reading more of a lane than the answer needs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, literal, select, union_all
from sqlalchemy.sql.selectable import CompoundSelect

from mayfly.schema import PRIORITIES, JobTable

COUNT_AT_LEAST = 1000


@dataclass(frozen=True)
class Due:
    lane: str
    pending: int
    capped: bool  # there may be more: the count stopped here

    def __str__(self) -> str:
        return f"{self.pending}+" if self.capped else str(self.pending)


def count_due(
    connection: Connection,
    jobs: JobTable,
    now: datetime,
    cap_of: Callable[[str], int] = lambda _lane: COUNT_AT_LEAST,
) -> list[Due]:
    """The lanes that have any rows, each with its due jobs, counted to its cap."""
    caps = {lane: cap_of(lane) for lane in connection.execute(lanes_statement(jobs)).scalars()}
    if not caps:
        return []
    counted = connection.execute(count_statement(jobs, caps, now))
    return [Due(row.lane, min(row.pending, caps[row.lane]), row.pending > caps[row.lane]) for row in counted]


def lanes_statement(jobs: JobTable) -> Select[Any]:
    """Hop from lane to lane along the claim index: one probe a lane, however many rows lie between."""
    first = select(func.min(jobs.c.lane).label("lane")).cte("lanes", recursive=True)
    following = select(func.min(jobs.c.lane)).where(jobs.c.lane > first.c.lane).correlate(first).scalar_subquery()
    hops = first.union_all(select(following).where(first.c.lane.is_not(None)))
    return select(hops.c.lane).where(hops.c.lane.is_not(None)).order_by(hops.c.lane)


def count_statement(jobs: JobTable, caps: Mapping[str, int], now: datetime) -> CompoundSelect[Any]:
    """One statement for all lanes; each part stops one row beyond its cap."""
    parts = []
    for number, (lane, cap) in enumerate(caps.items()):
        due = (
            select(literal(1).label("one"))
            .select_from(jobs.table)
            .where(jobs.c.lane == lane, jobs.c.status == jobs.pending)
            .where(jobs.c.priority.in_(PRIORITIES), jobs.c.run_at <= now)
            .limit(cap + 1)
            .subquery(f"due_{number}")
        )
        parts.append(select(literal(lane).label("lane"), func.count().label("pending")).select_from(due))
    return union_all(*parts)
