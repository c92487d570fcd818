"""Aggregate metric points per minute, hour and day. Each point is added once to each, even if it is late.

A point is marked in the transaction that adds it, so no other run or host adds it again, and a late point still
counts in its hour. Nothing is recomputed from points or minutes, which may be deleted already.
"""

import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, case, delete, func, select, update

from handlers.maintenance.purge import ROWS_PER_COMMIT, purge
from handlers.maintenance.tables import metric_points, metric_rollups
from handlers.upsert import insert_missing
from mayfly import Job

MINUTES_DELETED_PER_COMMIT = timedelta(hours=1)


class RollupKey(NamedTuple):
    """Sorted, so that two sessions that add to the same rows lock them in the same order."""

    span: str
    name: str
    begins_at: datetime


class RollupSum(NamedTuple):
    points: int
    total: float
    lowest: float
    highest: float

    def plus(self, value: float) -> "RollupSum":
        return RollupSum(self.points + 1, self.total + value, min(self.lowest, value), max(self.highest, value))


class MetricPoint(NamedTuple):
    name: str
    measured_at: datetime
    value: float


def roll_up(job: Job, points_kept: timedelta, minutes_kept: timedelta) -> dict[str, int]:
    counted = _repeat(job, "points", lambda connection: count_some(connection, job.now - minutes_kept))
    purge(job, metric_points, "measured_at", points_kept, only=metric_points.c.counted == 1)
    _repeat(job, "minutes removed", lambda connection: _delete_minutes(connection, job.now - minutes_kept))
    return {"points": counted}


def _repeat(job: Job, what: str, step: Callable[[Connection], int]) -> int:
    """Repeat `step` until it changes nothing; return the total over all slices of this job."""
    kept = {what: 0, **(job.state or {})}
    while done := job.write(step):
        kept[what] += done
        job.progress(kept[what], text=what)
        job.checkpoint(kept)
    return int(kept[what])


def add_up(points: Iterable[MetricPoint], minutes_since: datetime) -> dict[RollupKey, RollupSum]:
    """Skip minutes that would be deleted at once, and values that are not finite. Pure."""
    sums: dict[RollupKey, RollupSum] = {}
    for name, at, value in points:
        if not math.isfinite(value):
            continue
        minute = at.replace(second=0, microsecond=0)
        hour = minute.replace(minute=0)
        begins = {"minute": minute, "hour": hour, "day": hour.replace(hour=0)}
        for span, begins_at in begins.items():
            if span != "minute" or begins_at >= minutes_since:
                key = RollupKey(span, name, begins_at)
                sums[key] = sums.get(key, RollupSum(0, 0.0, math.inf, -math.inf)).plus(value)
    return sums


def count_some(connection: Connection, minutes_since: datetime) -> int:
    """Add the next uncounted points in one transaction; return how many. Skips points locked by another host."""
    point = metric_points.c
    due = (
        select(point.id, point.name, point.measured_at, point.value)
        .where(point.counted == 0)
        .order_by(point.id)
        .limit(ROWS_PER_COMMIT)
        .with_for_update(skip_locked=True)
    )
    rows = connection.execute(due).all()
    points = [MetricPoint(name, at, value) for _, name, at, value in rows]
    for key, sum_ in sorted(add_up(points, minutes_since).items()):
        _add(connection, key, sum_)
    if rows:
        connection.execute(update(metric_points).where(point.id.in_([row.id for row in rows])).values(counted=1))
    return len(rows)


def _add(connection: Connection, key: RollupKey, sum_: RollupSum) -> None:
    """UPDATE first: the row usually exists, and MySQL's INSERT of an existing key may deadlock."""
    rollup = metric_rollups.c
    add = (
        update(metric_rollups)
        .where(rollup.span == key.span, rollup.name == key.name, rollup.begins_at == key.begins_at)
        .values(
            points=rollup.points + sum_.points,
            total=rollup.total + sum_.total,
            lowest=case((rollup.lowest < sum_.lowest, rollup.lowest), else_=sum_.lowest),
            highest=case((rollup.highest > sum_.highest, rollup.highest), else_=sum_.highest),
        )
    )
    if connection.execute(add).rowcount:
        return
    insert_missing(connection, metric_rollups, {**key._asdict(), "points": 0, "total": 0.0})
    connection.execute(add)


def _delete_minutes(connection: Connection, before: datetime) -> int:
    """Delete old minutes, one hour of them per commit."""
    rollup = metric_rollups.c
    is_old = (rollup.span == "minute") & (rollup.begins_at < before)
    oldest = connection.scalar(select(func.min(rollup.begins_at)).where(is_old))
    if oldest is None:
        return 0
    until = min(before, oldest + MINUTES_DELETED_PER_COMMIT)
    return connection.execute(delete(metric_rollups).where(is_old, rollup.begins_at < until)).rowcount
