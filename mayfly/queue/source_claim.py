"""Claim rows of a source, in the transaction that claims jobs: due rows, and the rows of jobs that are claimed again.

Each claimed row gets a job in mayfly_jobs, its companion, which has lease, fencing token, attempts and history. A row
has at most one live companion: its unique key is source:NAME:KEY.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from mayfly.db.connection import Connection, numbered_parameters
from mayfly.db.dialects import TableColumns
from mayfly.errors import SourceUnusable
from mayfly.job import Job, SourceRow
from mayfly.queue.claim import Claimant
from mayfly.queue.insert import held_among_statement
from mayfly.queue.source_table import RowPosition, SourceTable, Statement
from mayfly.queue.sources import Sources, explained
from mayfly.schema.tables import MAX_ROW_KEY
from mayfly.settings.values import SourceSettings

MIN_PAGE = 100  # candidates: other runners may have locked the first ones
MAX_PAGES = 10

# The companions of one claim, for databases whose INSERT does not return them: along the claim index, which has few
# jobs that are being processed.
CLAIMED_COMPANIONS = (
    "SELECT id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'processing'"
    " AND worker_id = :worker_id AND locked_at = :now"
)
NOTE_WORKER = "UPDATE mayfly_jobs SET row_worker_id = :worker_id WHERE {ids of id}"


class LockedRow(NamedTuple):
    key: Any  # as the driver returns it
    time: Any  # when it was due
    source_row: SourceRow


class LockedRows(NamedTuple):
    rows: Mapping[str, LockedRow]  # by the unique key of their jobs, in the order of the claim
    reached: RowPosition | None  # set if as many rows were found as requested: the next claim may begin there
    was_due: bool  # if no row was found although some were due, other claims have locked them


class RowCompanion(NamedTuple):
    """The new job of a row."""

    id: int
    row: LockedRow
    claim: "RowClaim"

    def job(self) -> Job:
        table, now, source_row = self.claim.table, self.claim.now, self.row.source_row
        source = table.source
        due_at = (table.times.utc(self.row.time) if source.run_at else None) or now
        job = Job(
            self.id, source.type, source.lane, source_row.payload or "", 1, self.claim.max_attempts, claims=1,
            run_at=min(due_at, now),
        )  # fmt: skip
        job.source_row = source_row
        return job


@dataclass(frozen=True)
class RowClaim:
    """A claim of due rows of one source, in the transaction of the connection. Raises SourceUnusable."""

    connection: Connection
    sources: Sources
    table: SourceTable
    claimant: Claimant
    max_attempts: int
    now: datetime

    def lock(self, size: int, after: RowPosition | None = None) -> LockedRows:
        """Lock due rows, those after the position first. Rows that other transactions have locked are skipped."""
        locked: dict[str, LockedRow] = {}
        was_due = False
        with explained(self.table):
            for start in [after, None] if after else [None]:
                for page in islice(self._pages(max(size, MIN_PAGE), start), MAX_PAGES):
                    was_due = was_due or bool(page)
                    reached = self._lock_page(page, size, locked)
                    if len(locked) == size:
                        return LockedRows(locked, reached, was_due)
        return LockedRows(locked, None, was_due)

    def take(self, rows: Mapping[str, LockedRow]) -> list[RowCompanion]:
        """Insert the jobs of locked rows, and mark the rows. A row that has a live job is left alone."""
        if not rows:
            return []
        with explained(self.table):
            _refuse_long_keys(self.table, rows)
            ids = self._insert_companions(rows)
            taken = [RowCompanion(ids[key], row, self) for key, row in rows.items() if key in ids]
            if len(taken) < len(rows):
                self._refuse_uninserted(rows.keys() - ids.keys())
            if taken:
                _mark(
                    self.connection, self.table, [each.row.key for each in taken], self.claimant.worker_id, self.now
                )
        return taken

    def _pages(self, size: int, after: RowPosition | None) -> Iterator[list[RowPosition]]:
        """Due rows, read without locks: high priority first, then the oldest. The last page may be short."""
        for priority in self.table.priorities:
            start = after if after is not None and after.priority == priority else None
            while page := self._page(priority, size, start):
                yield page
                if len(page) < size:
                    break
                start = page[-1]

    def _page(self, priority: int, size: int, after: RowPosition | None) -> list[RowPosition]:
        page: list[RowPosition] = []
        for statements in self.table.candidates(self.now, priority, size, after):
            found = [self.connection.execute(each.sql, each.values).all() for each in statements]
            rows = found[0] if len(found) == 1 else sorted(row for rows in found for row in rows)
            page += [RowPosition(priority, time, key) for time, key in rows]
            if len(page) >= size:
                break
        return page[:size]

    def _lock_page(self, page: Sequence[RowPosition], size: int, locked: dict[str, LockedRow]) -> RowPosition | None:
        """Adds to the locked rows until there are enough; returns how far it has come."""
        columns = self.sources.columns(self.connection, self.table)
        names = _shown_columns(self.table.source, columns)
        reached, rest = None, list(page)
        while rest and len(locked) < size:
            tried, rest = rest[: size - len(locked)], rest[size - len(locked) :]
            lock = self.table.lock(columns, names, [each.key for each in tried], self.now)
            found = {row.key: row for row in _read_rows(self.connection, self.table, lock, names)}
            for each in tried:
                if (row := found.get(each.key)) is not None:
                    locked[row.source_row.unique_key] = row
            reached = tried[-1]
        return reached

    def _insert_companions(self, rows: Mapping[str, LockedRow]) -> Mapping[str, int]:
        """The ids of the new jobs by unique key."""
        source, claimant = self.table.source, self.claimant
        owner = {"worker_id": claimant.worker_id, "lane": source.lane, "now": self.now}
        job = {"type": source.type, "max_attempts": self.max_attempts, "lease_until": claimant.lease_until}
        columns = self.sources.columns(self.connection, self.table)
        insert = self.table.insert_jobs(columns, [row.key for row in rows.values()], {**owner, **job})
        inserted = self.connection.execute(insert.sql, insert.values)
        if not self.table.returns_jobs:
            inserted = self.connection.execute(CLAIMED_COMPANIONS, owner)
        return {key: job_id for job_id, key in inserted.all()}

    def _refuse_uninserted(self, keys: Collection[str]) -> None:
        """A row without a new job must have a live one: another claim was faster. MySQL reports no other reason."""
        missing = numbered_parameters(keys)
        statement = held_among_statement(self.connection.dialect, list(missing))
        for key in set(keys) - set(self.connection.execute(statement, missing).scalars()):
            reason = f"the job {key} could not be inserted; check that its payload is valid JSON"
            raise SourceUnusable(self.table.source.name, reason)


def _read_rows(connection: Connection, table: SourceTable, lock: Statement, names: Sequence[str]) -> list[LockedRow]:
    source = table.source.name
    return [
        LockedRow(values[0], time, SourceRow(source, str(values[0]), dict(zip(names, values, strict=True)), payload))
        for time, payload, *values in connection.execute(lock.sql, lock.values).all()
    ]


def _shown_columns(source: SourceSettings, columns: TableColumns) -> list[str]:
    """The columns of `job.row`: the primary key first."""
    return list(dict.fromkeys([source.id, *(source.payload or columns)]))


def _refuse_long_keys(table: SourceTable, rows: Iterable[str]) -> None:
    limit = len(SourceRow(table.source.name, "").unique_key) + MAX_ROW_KEY
    for key in rows:
        if len(key) > limit:
            reason = f"a primary key has more than {MAX_ROW_KEY} characters: {key[-MAX_ROW_KEY:]!s:.60}…"
            raise SourceUnusable(table.source.name, reason)


def _mark(connection: Connection, table: SourceTable, keys: Sequence[Any], worker_id: str, now: datetime) -> None:
    source = table.source
    values: dict[str, Any] = {source.status: source.processing}
    if source.worker_id is not None:
        values[source.worker_id] = worker_id
    if source.locked_at is not None:
        values[source.locked_at] = table.times.stored(now)
    update = table.update(keys, values, {})
    connection.execute(update.sql, update.values)


# --- jobs that are claimed again ----------------------------------------------------------------------------


def reclaim_rows(
    connection: Connection, sources: Sources, rows: Mapping[int, SourceRow], worker_id: str, now: datetime
) -> Mapping[int, SourceRow]:
    """Read the rows of jobs that were claimed again, after a retry or a release, and write the new worker into them.

    In the transaction of that claim; by job id. A row that no longer has the status `processing`, or that has another
    worker than the last one of the job, was changed by the application: its job is cancelled. Raises SourceUnusable.
    """
    reclaimed = dict(rows)
    for table in sources.tables.values():
        by_worker: dict[str | None, dict[str, int]] = defaultdict(dict)
        for job_id, row in rows.items():
            if row.source == table.source.name:
                by_worker[row.worker_id][row.key] = job_id
        for last_worker, ours in by_worker.items():
            found = _reclaim(connection, sources, table, list(ours), last_worker)
            if found:
                _mark(connection, table, [row.key for row in found.values()], worker_id, now)
                connection.execute(NOTE_WORKER, {"worker_id": worker_id}, [ours[key] for key in found])
            for key, job_id in ours.items():
                ours_again = found.get(key)
                unchanged = ours_again.source_row if ours_again else None
                reclaimed[job_id] = unchanged or rows[job_id]._replace(is_changed=True)
    return reclaimed


def _reclaim(
    connection: Connection, sources: Sources, table: SourceTable, keys: Sequence[str], last_worker: str | None
) -> Mapping[str, LockedRow]:
    with explained(table):
        columns = sources.columns(connection, table)
        names = _shown_columns(table.source, columns)
        native = [sources.native_key(connection, table, key) for key in keys]
        found = _read_rows(connection, table, table.lock_processing(columns, names, native, last_worker), names)
    return {row.source_row.key: row for row in found}
