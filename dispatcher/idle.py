"""The idle check: is there anything to do? The first step of every cycle, and usually the last one.

It runs before the rest of the dispatcher is imported, because those imports take many times as long as an idle cycle.
It may find a reason although the full cycle then finds nothing to do, but it never misses work.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from mayfly.db.connection import Connection
from mayfly.errors import SourceUnusable
from mayfly.fleet.cycles import has_live_runner, known_lanes
from mayfly.fleet.plan_lock import is_planning
from mayfly.process.state_dir import pages_in
from mayfly.queue.count import finished_batches, job_groups
from mayfly.queue.prune import searches
from mayfly.schedules.next_due import may_be_due
from mayfly.schema.tables import PROCESSING
from mayfly.settings import Settings


def reasons(connection: Connection, settings: Settings, directory: Path, now: datetime) -> Iterator[str]:
    """All reasons to run a full cycle; none if the cycle is idle."""
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
    if settings.launchers:
        from mayfly.fleet.submitted import has_ended_work  # most installations have no launchers

        if has_ended_work(connection, now):
            yield "a runner of a launcher has ended, and a step is left in its engine"
    groups = job_groups(connection)
    for group in groups:
        if group.is_due(now):
            yield f"lane {group.lane} has due jobs"
        if group.status == PROCESSING:
            yield f"lane {group.lane} has jobs in progress"
    yield from _reasons_of_sources(connection, settings, now)
    for key in finished_batches(connection):
        yield f"batch {key} is finished"
    for search in searches(groups, settings, now):
        if connection.execute(search.statement, search.values).first() is not None:
            yield f"{search.table} has rows to prune"


def _reasons_of_sources(connection: Connection, settings: Settings, now: datetime) -> Iterator[str]:
    if not settings.sources:
        return
    from mayfly.queue.sources import Sources, has_due_rows  # most installations have no sources

    for table in Sources(settings.sources.values(), connection.dialect).tables.values():
        try:
            if has_due_rows(connection, table, now):
                yield f"source {table.source.name} has due rows"
        except SourceUnusable as error:
            yield str(error)
