"""Count what is due, lane by lane, without ever reading more of a lane than the answer needs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from mayfly.connection import Connection
from mayfly.jobs.looks import find_lanes, next_due
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
    counted = count_in(connection, jobs, caps, now)
    return [Due(lane, min(counted[lane], cap), counted[lane] > cap) for lane, cap in caps.items()]


def count_in(connection: Connection, jobs: JobTable, caps: Mapping[str, int], now: datetime) -> Counter[str]:
    """The due jobs of these lanes. More than a lane's cap means no more than that there are more."""
    lanes = list(caps)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = {lane: caps[lane] for lane in lanes[start : start + LANES_PER_STATEMENT]}
        for number, pending in _count(connection, jobs, part, now):
            counted[lanes[start + number]] += pending
    return counted


def lanes_with_due(connection: Connection, jobs: JobTable, lanes: Sequence[str], now: datetime) -> set[str]:
    """Those of the lanes that have anything to do: one row of each is looked at."""
    found: set[str] = set()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = dict.fromkeys(lanes[start : start + LANES_PER_STATEMENT], 0)
        found.update(lanes[start + number] for number, due in _count(connection, jobs, part, now) if due)
    return found


def _count(
    connection: Connection, jobs: JobTable, caps: Mapping[str, int], now: datetime
) -> Sequence[tuple[int, int]]:
    """The number of each lane among the caps, and the due jobs of one of its priorities."""
    names = {f"lane_{number}": lane for number, lane in enumerate(caps)}
    return connection.execute(count_statement(jobs, list(caps.values())), {**names, "now": now}).all()


def count_statement(jobs: JobTable, caps: Sequence[int]) -> str:
    """One statement for several lanes: a row for each lane and priority, which stops one beyond the lane's cap."""
    parts = []
    for number, cap in enumerate(caps):
        for priority in PRIORITIES:
            due = next_due(jobs.c.id, jobs, f":lane_{number}", str(priority), str(cap + 1))
            parts.append(f"SELECT {number}, COUNT(*) FROM ({due}) AS due_{number}_{priority}")
    return " UNION ALL ".join(parts)
