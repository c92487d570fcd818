"""Is there anything to do? The first step of every cycle, and in most minutes the last one.

Asked before the rest of the dispatcher is imported, because the imports cost many times what an idle minute does.
It may find a reason where a full cycle then has nothing to do, but never the other way round.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from mayfly.db.connection import Connection
from mayfly.fleet.cycles import has_live_runner, known_lanes
from mayfly.fleet.plan_lock import is_planning
from mayfly.process.state_dir import pages_in
from mayfly.queue.count import find_lanes, finished_batches, has_due, processing_statement
from mayfly.queue.prune import keep_from, searches
from mayfly.schedules.next_due import may_be_due
from mayfly.settings import Settings


def anything_to_do(connection: Connection, settings: Settings, directory: Path, now: datetime) -> str | None:
    """The first reason to run a full cycle; None in an idle minute."""
    return next(reasons(connection, settings, directory, now), None)


def reasons(connection: Connection, settings: Settings, directory: Path, now: datetime) -> Iterator[str]:
    """All reasons to run a full cycle."""
    if settings.longest_linger:
        yield "the dispatcher lingers"
    if pages_in(directory):
        yield "a runner of this host is alive, or left its status page"
    if may_be_due(settings, directory, now):
        yield "a schedule may be due"
    if is_planning(connection):
        yield "another host plans, or died while planning"
    if has_live_runner(connection):
        yield "a runner is alive, or its end was not recorded"
    if any(each.passed_over for each in known_lanes(connection).values()):
        yield "a lane was passed over"
    lanes = find_lanes(connection)
    yield from _reasons_in_jobs(connection, lanes, now)
    for key in finished_batches(connection):
        yield f"batch {key} is finished"
    for search in searches(lanes, keep_from(settings), now):
        if connection.execute(search.statement, search.values).first() is not None:
            yield f"{search.table} has rows to prune"


def _reasons_in_jobs(connection: Connection, lanes: list[str], now: datetime) -> Iterator[str]:
    processing = f"{processing_statement()} LIMIT 1"
    for lane in lanes:
        if has_due(connection, lane, now):
            yield f"lane {lane} has due jobs"
        if connection.execute(processing, {"lane": lane}).first() is not None:
            yield f"lane {lane} has jobs in progress"
