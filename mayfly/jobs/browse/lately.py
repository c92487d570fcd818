"""The last hour: how much each lane has done from minute to minute, and what has newly died."""

from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.clock import milliseconds
from mayfly.connection import Connection
from mayfly.dialect import utc_from_driver
from mayfly.jobs.browse.capped import facts_of
from mayfly.jobs.browse.jobs import one_line
from mayfly.jobs.history import begin_of
from mayfly.outcome import Kind
from mayfly.schema import JobTable

HOUR = timedelta(hours=1)
STEP_SECONDS, STEPS = 120, 30
MOST_SHOWN = 20  # types that have newly died
ATTEMPTS_LOOKED_AT = 200  # the last that went wrong: among them is the error of most that died
ERROR_READ = 500

_STEP = f"cycle_id - cycle_id % {STEP_SECONDS * 1000}"  # to count by minutes would read no more, and answer with more
DONE_BY_LANE = (
    f"SELECT lane, {_STEP}, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{Kind.DONE.value}' GROUP BY lane, {_STEP}"
)
DEATHS = (
    "SELECT lane, type, SUM(jobs) FROM mayfly_totals"
    f" WHERE cycle_id >= :since AND outcome = '{Kind.DEAD.value}' GROUP BY lane, type"
    f" ORDER BY SUM(jobs) DESC, lane, type LIMIT {MOST_SHOWN}"
)


def read_sparks(connection: Connection, now: datetime) -> dict[str, tuple[int, ...]]:
    """Of each lane that has done anything: how many jobs in each of 30 steps of two minutes, the oldest first."""
    first = begin_of(milliseconds(now), STEP_SECONDS) - (STEPS - 1) * STEP_SECONDS * 1000
    found: dict[str, list[int]] = {}
    for lane, begins, jobs in connection.execute(DONE_BY_LANE, {"since": first}).all():
        place = (int(begins) - first) // (STEP_SECONDS * 1000)
        if place < STEPS:
            found.setdefault(lane, [0] * STEPS)[place] += int(jobs)
    return {lane: tuple(steps) for lane, steps in found.items()}


class NewlyDead(NamedTuple):
    lane: str
    type: str
    jobs: int
    newest_id: int | None = None  # of those whose error was found
    error: str | None = None
    died_at: datetime | None = None

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


def list_newly_dead(connection: Connection, jobs: JobTable, now: datetime) -> list[NewlyDead]:
    """By lane and type, of the last hour, most first: exact figures, with the newest error where it is at hand."""
    since = now - HOUR
    found = connection.execute(DEATHS, {"since": milliseconds(since)}).all()
    if not found:
        return []
    newest: dict[tuple[str, str], tuple[Any, ...]] = {}
    rows = connection.execute(newest_statement(jobs), {"since": since, "size": ATTEMPTS_LOOKED_AT}).all()
    for lane, type_name, job_id, error, died_at in rows:
        newest.setdefault((lane, type_name), (job_id, one_line(error), utc_from_driver(died_at)))
    return [
        NewlyDead(lane, type_name, int(number), *newest.get((lane, type_name), ()))
        for lane, type_name, number in found
    ]


@cache
def newest_statement(jobs: JobTable) -> str:
    c = jobs.c
    last = (
        f"SELECT id, job_id, SUBSTR(error, 1, {ERROR_READ}) AS said, finished_at FROM mayfly_attempts"
        " WHERE finished_at >= :since ORDER BY finished_at DESC LIMIT :size"
    )
    return (
        f"SELECT j.{c.lane}, j.{c.type}, j.{c.id}, a.said, a.finished_at FROM ({last}) AS a"
        f" JOIN {jobs.table} AS j ON j.{c.id} = a.job_id WHERE j.{c.status} = '{jobs.dead}'"
        " ORDER BY a.finished_at DESC"
    )
