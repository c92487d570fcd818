"""Looks at the table of jobs that take nothing: cheap enough for every minute and for every claim."""

from collections.abc import Collection
from datetime import datetime
from functools import cache
from typing import Any

from mayfly.connection import Connection
from mayfly.schema import PRIORITIES, JobTable

COME_BACK_AMONG = 1000  # jobs of a lane and priority


def next_due(
    columns: str,
    jobs: JobTable,
    lane: str = ":lane",
    priority: str = ":priority",
    size: str = ":size",
    order: str = "",
    hint: str = "",
    since: str | None = None,
) -> str:
    """Lane, status and priority are equalities, so run_at is a pure range of the claim index.

    The order matters even to those who only count: without it PostgreSQL may take delayed and finished jobs for
    due ones, and scan the whole table in the hope of finding enough of them soon.
    """
    c = jobs.c
    begin = f" AND {c.run_at} >= {since}" if since else ""
    return (
        f"SELECT {columns} FROM {jobs.table}{hint}"
        f" WHERE {c.lane} = {lane} AND {c.status} = '{jobs.pending}' AND {c.priority} = {priority}"
        f"{begin} AND {c.run_at} <= :now ORDER BY {c.run_at}{order}, {c.id}{order} LIMIT {size}"
    )


def has_due(connection: Connection, jobs: JobTable, lane: str, now: datetime) -> bool:
    return bool(due_priorities(connection, jobs, lane, now))


def due_priorities(connection: Connection, jobs: JobTable, lane: str, now: datetime) -> list[int]:
    """Those that have due jobs, high first. Without locks: some of these jobs may be in somebody's hands.

    From the far end: at the near one lie the index entries of what was just claimed, and InnoDB goes through all of
    them that it has not removed yet, under a lock each, even to find that a priority before them is empty.
    """
    return sorted(connection.execute(due_priorities_statement(jobs), {"lane": lane, "now": now}).scalars())


@cache
def due_priorities_statement(jobs: JobTable) -> str:
    looks = {each: next_due(jobs.c.id, jobs, priority=str(each), size="1", order=" DESC") for each in PRIORITIES}
    return " UNION ALL ".join(f"SELECT {each} FROM ({look}) AS due_{each}" for each, look in looks.items())


def first_come_back(
    connection: Connection, jobs: JobTable, lane: str, types: Collection[str], now: datetime
) -> int | None:
    """Of the next due jobs of a lane, the oldest of these types that a runner has given back unspent."""
    found: list[tuple[Any, int]] = []
    for priority in PRIORITIES:
        asked = {"lane": lane, "priority": priority, "now": now, "size": COME_BACK_AMONG}
        came_back = connection.execute(come_back_statement(jobs), asked).all()
        found += ((run_at, job_id) for job_id, type_name, run_at in came_back if type_name in types)
    return min(found)[1] if found else None


@cache
def come_back_statement(jobs: JobTable) -> str:
    c = jobs.c
    due = next_due(", ".join((c.id, c.type, c.run_at, c.claims, c.attempts)), jobs)
    return f"SELECT {c.id}, {c.type}, {c.run_at} FROM ({due}) AS due WHERE {c.claims} > {c.attempts}"


def find_lanes(connection: Connection, jobs: JobTable) -> list[str]:
    """The lanes that have any rows: hop along the claim index, one probe a lane, however many rows lie between."""
    lanes: list[str] = []
    lane = ""
    while (lane := connection.execute(next_lane_statement(jobs), {"lane": lane}).scalar()) is not None:
        lanes.append(lane)
    return lanes


def next_lane_statement(jobs: JobTable) -> str:
    """Beyond a constant, MIN is one probe everywhere. In a recursive CTE, MariaDB scans the index for each lane."""
    return f"SELECT MIN({jobs.c.lane}) FROM {jobs.table} WHERE {jobs.c.lane} > :lane"


def processing_statement(jobs: JobTable) -> str:
    """Along the claim index: only what is being processed is read, and that is little."""
    c = jobs.c
    columns = (
        c.worker_id, c.id, c.type, c.payload, c.attempts, c.max_attempts, c.claims, c.crashes, c.interruptions,
        c.suspect, c.run_at, c.group_key, c.stalled, c.forgiven,
    )  # fmt: skip
    where = f"{c.lane} = :lane AND {c.status} = '{jobs.processing}'"
    return f"SELECT {', '.join(columns)} FROM {jobs.table} WHERE {where}"


def wish_to_cancel(connection: Connection, jobs: JobTable, job_id: int, worker_id: str, claims: int) -> str | None:
    """Why somebody wants a job to end that this owner runs; None if nobody does, or if it is not his any more."""
    values = {"id": job_id, "owner": worker_id, "token": claims}
    reason: str | None = connection.execute(wish_statement(jobs), values).scalar()
    return reason


@cache
def wish_statement(jobs: JobTable) -> str:
    c = jobs.c
    fence = f"{c.id} = :id AND {c.worker_id} = :owner AND {c.claims} = :token"
    return f"SELECT {c.cancel_reason} FROM {jobs.table} WHERE {fence}"
