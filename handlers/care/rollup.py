"""Add points up by the minute, the hour and the day. Each is added once to all three, whenever it comes.

A point is marked in the transaction that adds it, so neither a second run nor a second host adds it again, and a
late one changes the hour that was thought complete. Nothing is computed anew from points or minutes that may be gone.
"""

import math
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from handlers.care.tables import STEP, remove_older
from mayfly import Job, utc_from_driver

# Those that another host is at are left to it.
DUE = f"SELECT id, name, measured_at, value FROM app_metric_points WHERE counted = 0 ORDER BY id LIMIT {STEP}"
MARK = "UPDATE app_metric_points SET counted = 1 WHERE {ids of id}"
KEY, COLUMNS = ("span", "name", "begins_at"), ("span", "name", "begins_at", "points", "total")
ADD = (
    "UPDATE app_metric_rollups SET points = points + :points, total = total + :total,"
    " lowest = CASE WHEN lowest < :lowest THEN lowest ELSE :lowest END,"
    " highest = CASE WHEN highest > :highest THEN highest ELSE :highest END"
    " WHERE span = :span AND name = :name AND begins_at = :begins_at"
)
OLDEST = "SELECT MIN(begins_at) FROM app_metric_rollups WHERE span = 'minute' AND begins_at < :before"
REMOVE = "DELETE FROM app_metric_rollups WHERE span = 'minute' AND begins_at < :before"
REMOVED_AT_ONCE = timedelta(hours=1)


class Key(NamedTuple):
    """Of an aggregate. Sorted, so that two who add to the same rows come to them in the same order."""

    span: str
    name: str
    begins_at: datetime


class Sum(NamedTuple):
    points: int
    total: float
    lowest: float
    highest: float

    def plus(self, value: float) -> "Sum":
        return Sum(self.points + 1, self.total + value, min(self.lowest, value), max(self.highest, value))


class Point(NamedTuple):
    name: str
    measured_at: datetime
    value: float


def roll_up(job: Job, points_kept: timedelta, minutes_kept: timedelta) -> dict[str, int]:
    counted = _repeat(job, "points", lambda connection: count_step(connection, job.now - minutes_kept))
    remove_older(job, "app_metric_points", "measured_at", points_kept, only="counted = 1")
    _repeat(job, "minutes removed", lambda connection: _remove_minutes(connection, job.now - minutes_kept))
    return {"points": counted}


def _repeat(job: Job, what: str, step: Callable[[Any], int]) -> int:
    """Until there is nothing left; in all, over all slices of this job."""
    kept = {what: 0, **(job.state or {})}
    while done := job.write(step):
        kept[what] += done
        job.progress(kept[what], text=what)
        job.checkpoint(kept)
    return int(kept[what])


def add_up(points: Iterable[Point], minutes_since: datetime) -> dict[Key, Sum]:
    """Pure. Minutes that would be removed at once are left out; what is no number is in no sum."""
    sums: dict[Key, Sum] = {}
    for name, at, value in points:
        if not math.isfinite(value):
            continue
        minute = at.replace(second=0, microsecond=0)
        hour = minute.replace(minute=0)
        begins = {"minute": minute, "hour": hour, "day": hour.replace(hour=0)}
        for span, begins_at in begins.items():
            if span != "minute" or begins_at >= minutes_since:
                key = Key(span, name, begins_at)
                sums[key] = sums.get(key, Sum(0, 0.0, math.inf, -math.inf)).plus(value)
    return sums


def count_step(connection: Any, minutes_since: datetime) -> int:
    """How many points were found; all or none of them are counted."""
    rows = connection.execute(f"{DUE}{connection.dialect.claim_lock}").all()
    points = [Point(name, utc_from_driver(at), value) for _, name, at, value in rows]
    for key, sum_ in sorted(add_up(points, minutes_since).items()):
        _add(connection, key, sum_)
    if rows:
        connection.execute(MARK, ids=[row[0] for row in rows])
    return len(rows)


def _add(connection: Any, key: Key, sum_: Sum) -> None:
    """First to the row that most often is there: to insert one that is would lock it in a way that others share."""
    change = {**key._asdict(), **sum_._asdict()}
    if connection.execute(ADD, change).rowcount:
        return
    empty = {**key._asdict(), "points": 0, "total": 0.0}
    connection.execute(connection.dialect.insert_missing("app_metric_rollups", KEY, COLUMNS), empty)
    connection.execute(ADD, change)


def _remove_minutes(connection: Any, before: datetime) -> int:
    """Those of an hour at a time."""
    oldest = connection.execute(OLDEST, {"before": before}).scalar()
    if oldest is None:
        return 0
    until = min(before, utc_from_driver(oldest) + REMOVED_AT_ONCE)
    return int(connection.execute(REMOVE, {"before": until}).rowcount)
