"""Sources: due rows of the application's own tables, the jobs of their rows, and the state of a single row."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from mayfly.admin.jobs import CappedCount
from mayfly.admin.why import RowState
from mayfly.db.connection import Connection
from mayfly.errors import SourceUnusable
from mayfly.job import SourceRow
from mayfly.queue.source_table import SourceTable
from mayfly.queue.sources import Sources, count_rows, explained, oldest_due
from mayfly.schema.tables import DEAD, PROCESSING
from mayfly.settings import Settings

MAX_DUE_COUNTED = 1000
MAX_JOBS_READ = 10_000  # of the lane, per status: a lane may have jobs of other sources, and of none

LAST_NOTE = "SELECT note FROM mayfly_cycles WHERE finished_at IS NOT NULL ORDER BY id DESC LIMIT 1"


class SourceView(NamedTuple):
    source: str
    table: str
    lane: str
    type: str
    pending: CappedCount = CappedCount()  # due rows
    oldest_due_at: datetime | None = None  # None also for a source without `run_at`
    wait_seconds: float | None = None  # of the oldest due row
    running: CappedCount = CappedCount()  # jobs of its rows that are claimed or running
    dead: CappedCount = CappedCount()
    problem: str | None = None  # why it cannot be used; then there are no figures


class DueRows(NamedTuple):
    pending: CappedCount
    oldest_due_at: datetime | None


def list_sources(connection: Connection, settings: Settings, now: datetime) -> list[SourceView]:
    sources, note = Sources(settings.sources.values(), connection.dialect), _last_note(connection)
    return [_view(connection, sources, each, note, now) for each in sources.tables.values()]


def _view(connection: Connection, sources: Sources, table: SourceTable, note: str, now: datetime) -> SourceView:
    source = table.source
    view = SourceView(source.name, source.table, source.lane, source.type)
    try:
        due = read_due(connection, sources, table, now)
    except SourceUnusable as error:
        return view._replace(problem=str(error))
    if due.pending.number and (noted := _noted(note, source.name)):
        return view._replace(problem=noted)
    oldest = due.oldest_due_at
    return view._replace(
        pending=due.pending,
        oldest_due_at=oldest,
        wait_seconds=None if oldest is None else max(0.0, (now - oldest).total_seconds()),
        running=_count_jobs(connection, table, PROCESSING),
        dead=_count_jobs(connection, table, DEAD),
    )


def read_due(connection: Connection, sources: Sources, table: SourceTable, now: datetime) -> DueRows:
    """Raises SourceUnusable."""
    sources.columns(connection, table)  # a missing column of the payload is found before any row is due
    counted = count_rows(connection, table, now, MAX_DUE_COUNTED)
    return DueRows(CappedCount.of(counted, MAX_DUE_COUNTED), oldest_due(connection, table, now))


def find_problems(connection: Connection, settings: Settings, now: datetime) -> Mapping[str, str]:
    """Why sources cannot be used, by name."""
    found: dict[str, str] = {}
    sources, note = Sources(settings.sources.values(), connection.dialect), _last_note(connection)
    for name, table in sources.tables.items():
        try:
            sources.columns(connection, table)
            if count_rows(connection, table, now, 0) and (noted := _noted(note, name)):
                found[name] = noted
        except SourceUnusable as error:
            found[name] = str(error)
    return found


def _last_note(connection: Connection) -> str:
    """Of the last cycle, which has tried to claim a row of each source that had any: a query does not show that."""
    return connection.execute(LAST_NOTE).scalar() or ""


def _noted(note: str, source: str) -> str | None:
    beginning = SourceUnusable.beginning(source)
    return next((line for line in note.splitlines() if line.startswith(beginning)), None)


def _count_jobs(connection: Connection, table: SourceTable, status: str) -> CappedCount:
    source = table.source
    prefix = SourceRow(source.name, "").unique_key
    values = {"lane": source.lane, "status": status, "size": MAX_JOBS_READ, "prefix": prefix}
    counted = int(connection.execute(jobs_statement(len(prefix)), values).scalar())
    return CappedCount.of(counted, MAX_JOBS_READ - 1)


def jobs_statement(prefix_length: int) -> str:
    """Along the claim index; no index has the unique keys of ended jobs."""
    return (
        "SELECT COUNT(*) FROM (SELECT unique_key FROM mayfly_jobs WHERE lane = :lane AND status = :status"
        " ORDER BY priority, run_at, id LIMIT :size) AS jobs_of_lane"
        f" WHERE SUBSTR(unique_key, 1, {prefix_length}) = :prefix"
    )


def read_row_state(connection: Connection, sources: Sources, row: SourceRow) -> RowState | None:
    """None if its source is unknown here or cannot be used."""
    table = sources.tables.get(row.source)
    if table is None:
        return None
    quoted, source = table.dialect.quoted, table.source
    chosen = ", ".join(map(quoted, filter(None, (source.status, source.worker_id))))
    statement = f"SELECT {chosen} FROM {table.table} WHERE {quoted(source.id)} = :key"
    try:
        with explained(table):
            key = sources.native_key(connection, table, row.key)
            found = connection.execute(statement, {"key": key}).first()
    except SourceUnusable:
        return None
    if found is None:
        return RowState(False)
    status, *workers = found
    others = [str(each) for each in workers if row.worker_id is not None and each != row.worker_id]
    return RowState(True, status, str(status) == str(source.processing), others[0] if others else None)
