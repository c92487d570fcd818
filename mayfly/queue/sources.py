"""Rows of an application's own table as jobs: count due rows, claim them, write back the outcome of their jobs.

Each claimed row gets a job in mayfly_jobs, its companion, which has lease, fencing token, attempts and history. A row
has at most one live companion: its unique key is source:NAME:KEY. Lock order: job, then row.

Changes by the application win: a row that no longer has the status `processing` and this worker's id is left alone.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import log_messages
from mayfly.db.connection import Connection, numbered_parameters
from mayfly.db.database import first_line
from mayfly.db.dialects import ErrorKind, TableColumns
from mayfly.errors import SourceUnusable
from mayfly.job import Job, SourceRow, source_row_of
from mayfly.log_messages import LogMessage
from mayfly.queue.claim import Claimant
from mayfly.queue.insert import held_among_statement
from mayfly.queue.outcome import Outcome, OutcomeKind, RowChanged, Settlement, Settler, bounded
from mayfly.queue.source_table import SourceTable, Statement
from mayfly.schema.tables import MAX_ROW_KEY
from mayfly.settings.values import SourceSettings

EXTRA_CANDIDATES = 100  # read in addition to the size of a claim: other runners may lock the first ones meanwhile
MAX_PAYLOAD_COLUMNS = 50
ROW_CHANGED = "row changed: the application has changed or deleted the row while the job was live"
# What is wrong with the settings of a source, or with its table; all other errors concern the whole database.
_SOURCE_ERRORS = (ErrorKind.NO_TABLE, ErrorKind.OTHER, ErrorKind.REFUSED)

# The companions of one claim: along the claim index, which has few jobs that are being processed.
CLAIMED_COMPANIONS = (
    "SELECT id, unique_key FROM mayfly_jobs WHERE lane = :lane AND status = 'processing'"
    " AND worker_id = :worker_id AND locked_at = :now"
)
NOTE_CHANGED_ROW = "UPDATE mayfly_jobs SET last_error = :note WHERE {ids of id}"
COMPANIONS = "SELECT unique_key FROM mayfly_jobs WHERE {ids of id} AND unique_key IS NOT NULL"


class ClaimedRows(NamedTuple):
    jobs: Sequence[Job] = ()
    was_due: bool = False  # if there are no jobs although rows were due, other claims have locked them


class Sources:
    """The sources of one database, with the columns of their tables as far as they were read."""

    def __init__(self, settings: Iterable[SourceSettings], dialect: Any) -> None:
        self.tables = {each.name: SourceTable(each, dialect) for each in settings}
        self._columns: dict[str, TableColumns] = {}

    def of_lane(self, lane: str) -> list[SourceTable]:
        return [each for each in self.tables.values() if each.source.lane == lane]

    def columns(self, connection: Connection, table: SourceTable) -> TableColumns:
        """Read once per process; raises SourceUnusable if the table or a column is missing."""
        source = table.source
        if source.name not in self._columns:
            found = connection.dialect.columns(connection, source.table)
            refuse_missing_columns(source, found)
            self._columns[source.name] = found
        return self._columns[source.name]

    def native_key(self, connection: Connection, table: SourceTable, key: str) -> str | int:
        """A primary key as the database compares it without a conversion, which would use no index."""
        return int(key) if self.columns(connection, table)[table.source.id].is_integer else key


def refuse_missing_columns(source: SourceSettings, found: TableColumns) -> None:
    if not found:
        raise SourceUnusable(source.name, f"the database has no table {source.table}")
    for name in named_columns(source):
        if name not in found:
            raise SourceUnusable(source.name, f"the table {source.table} has no column {name}")
    _refuse_long_values(source, found[source.status].max_length)
    if source.payload is None and len(found) > MAX_PAYLOAD_COLUMNS:
        reason = f"the table {source.table} has {len(found)} columns; name at most {MAX_PAYLOAD_COLUMNS} in `payload`"
        raise SourceUnusable(source.name, reason)


def _refuse_long_values(source: SourceSettings, limit: int | None) -> None:
    """Before any row is claimed: its outcome could not be written."""
    for value in (source.processing, source.done, source.failed, source.cancelled_value):
        if limit is not None and len(str(value)) > limit:
            reason = f"the column {source.status} stores at most {limit} characters, too few for {value!r}"
            raise SourceUnusable(source.name, reason)


def named_columns(source: SourceSettings) -> list[str]:
    """All columns that its settings name."""
    single = (
        source.id, source.status, source.run_at, source.priority, source.worker_id, source.locked_at, source.attempts,
        source.error, source.finished_at,
    )  # fmt: skip
    return list(dict.fromkeys([*filter(None, single), *(source.payload or ())]))


@contextmanager
def explained(table: SourceTable) -> Iterator[None]:
    """Raises SourceUnusable for an error that concerns only this source."""
    try:
        yield
    except table.dialect.errors as error:
        if table.dialect.error_kind(error) not in _SOURCE_ERRORS:
            raise
        raise SourceUnusable(table.source.name, first_line(error)) from error


# --- count ------------------------------------------------------------------------------------------------


def count_rows(connection: Connection, table: SourceTable, now: datetime, cap: int) -> int:
    """Due rows; a result above the cap only means that there are more. Raises SourceUnusable."""
    with explained(table):
        counting = table.count(now, cap + 1)
        return sum(int(number) for (number,) in connection.execute(counting.sql, counting.values).all())


def count_by_lane(
    connection: Connection, tables: Iterable[SourceTable], now: datetime, cap_of: Callable[[str], int]
) -> tuple[Counter[str], list[SourceUnusable]]:
    """Due rows by lane, and the sources that cannot be used."""
    counted: Counter[str] = Counter()
    problems = []
    for table in tables:
        try:
            counted[table.source.lane] += count_rows(connection, table, now, cap_of(table.source.lane))
        except SourceUnusable as error:
            problems.append(error)
    return counted, problems


def has_due_rows(connection: Connection, table: SourceTable, now: datetime) -> bool:
    return count_rows(connection, table, now, 0) > 0


def oldest_due(connection: Connection, table: SourceTable, now: datetime) -> datetime | None:
    """The time of the oldest due row. Raises SourceUnusable."""
    with explained(table):
        found = [connection.execute(each.sql, each.values).scalar() for each in table.oldest(now)]
    times = [table.times.utc(each) for each in found if each is not None]
    return min((each for each in times if each is not None), default=None)


# --- claim ------------------------------------------------------------------------------------------------


class _LockedRow(NamedTuple):
    table: SourceTable
    key: Any
    time: Any
    payload: str
    values: Mapping[str, Any]

    @property
    def source_row(self) -> SourceRow:
        return SourceRow(self.table.source.name, str(self.key), self.values, self.payload)

    def job(self, job_id: int, max_attempts: int, now: datetime) -> Job:
        source = self.table.source
        due_at = (self.table.times.utc(self.time) if source.run_at else None) or now
        job = Job(job_id, source.type, source.lane, self.payload, 1, max_attempts, claims=1, run_at=min(due_at, now))
        job.source_row = self.source_row
        return job


@dataclass(frozen=True)
class RowClaim:
    """A claim of rows of one source, in the transaction of the connection."""

    connection: Connection
    sources: Sources
    table: SourceTable
    claimant: Claimant
    max_attempts: int
    now: datetime

    def claim(self, size: int) -> ClaimedRows:
        """Lock due rows, insert their companions, and mark the rows. Raises SourceUnusable."""
        with explained(self.table):
            candidates = self._candidates(size + EXTRA_CANDIDATES)
            rows = self._lock(candidates, size)
            if not rows:
                return ClaimedRows(was_due=bool(candidates))
            _refuse_long_keys(self.table, rows)
            ids = self._insert_companions(rows)
            claimed = {key: row for key, row in rows.items() if key in ids}
            if len(claimed) < len(rows):
                self._refuse_uninserted(rows.keys() - ids.keys())
            if claimed:
                _mark(self.connection, self.table, claimed.values(), self.claimant.worker_id, self.now)
        return ClaimedRows([row.job(ids[key], self.max_attempts, self.now) for key, row in claimed.items()], True)

    def _candidates(self, size: int) -> list[Any]:
        """Keys of due rows, read without locks: high priority first, then the oldest."""
        keys: list[Any] = []
        for priority in self.table.priorities:
            found: list[Any] = []
            for each in self.table.candidates(self.now, priority, size):
                found += self.connection.execute(each.sql, each.values).all()
            keys += [key for key, _time in sorted(found, key=lambda row: (row[1], row[0]))]
            if len(keys) >= size:
                break
        return keys[:size]

    def _lock(self, candidates: Sequence[Any], size: int) -> dict[str, _LockedRow]:
        """By unique key, in the order of the candidates. Some may be locked by other claims, or no longer due."""
        columns = self.sources.columns(self.connection, self.table)
        names = _shown_columns(self.table.source, columns)
        rows: dict[Any, _LockedRow] = {}  # by key
        rest = list(candidates)
        while rest and len(rows) < size:
            missing = size - len(rows)
            lock = self.table.lock(columns, names, rest[:missing], self.now)
            rows |= {row.key: row for row in _read_rows(self.connection, self.table, lock, names)}
            del rest[:missing]
        return {rows[key].source_row.unique_key: rows[key] for key in candidates if key in rows}

    def _insert_companions(self, rows: Mapping[str, _LockedRow]) -> Mapping[str, int]:
        """The ids of the new jobs by unique key."""
        source, claimant = self.table.source, self.claimant
        owner = {"worker_id": claimant.worker_id, "lane": source.lane, "now": self.now}
        job = {"type": source.type, "max_attempts": self.max_attempts, "lease_until": claimant.lease_until}
        columns = self.sources.columns(self.connection, self.table)
        insert = self.table.insert_jobs(columns, [row.key for row in rows.values()], {**owner, **job})
        self.connection.execute(insert.sql, insert.values)
        return {key: job_id for job_id, key in self.connection.execute(CLAIMED_COMPANIONS, owner).all()}

    def _refuse_uninserted(self, keys: Collection[str]) -> None:
        """A row without a new job must have a live one: another claim was faster. MySQL reports no other reason."""
        missing = numbered_parameters(keys)
        statement = held_among_statement(self.connection.dialect, list(missing))
        for key in set(keys) - set(self.connection.execute(statement, missing).scalars()):
            reason = f"the job {key} could not be inserted; check that its payload is valid JSON"
            raise SourceUnusable(self.table.source.name, reason)


def _read_rows(connection: Connection, table: SourceTable, lock: Statement, names: Sequence[str]) -> list[_LockedRow]:
    found = connection.execute(lock.sql, lock.values).all()
    return [
        _LockedRow(table, key, time, payload, dict(zip(names, values, strict=True)))
        for key, time, payload, *values in found
    ]


def _shown_columns(source: SourceSettings, columns: TableColumns) -> list[str]:
    """The columns of `job.row`."""
    return list(dict.fromkeys([source.id, *(source.payload or columns)]))


def _refuse_long_keys(table: SourceTable, rows: Iterable[str]) -> None:
    limit = len(SourceRow(table.source.name, "").unique_key) + MAX_ROW_KEY
    for key in rows:
        if len(key) > limit:
            reason = f"a primary key has more than {MAX_ROW_KEY} characters: {key[-MAX_ROW_KEY:]!s:.60}…"
            raise SourceUnusable(table.source.name, reason)


def _mark(
    connection: Connection, table: SourceTable, rows: Iterable[_LockedRow], worker_id: str, now: datetime
) -> None:
    update = table.update([row.key for row in rows], _claimed_values(table, worker_id, now), {})
    connection.execute(update.sql, update.values)


def _claimed_values(table: SourceTable, worker_id: str, now: datetime) -> dict[str, Any]:
    source = table.source
    values: dict[str, Any] = {source.status: source.processing}
    if source.worker_id is not None:
        values[source.worker_id] = worker_id
    if source.locked_at is not None:
        values[source.locked_at] = table.times.stored(now)
    return values


def reclaim_rows(
    connection: Connection, sources: Sources, rows: Mapping[int, SourceRow], worker_id: str, now: datetime
) -> Mapping[int, SourceRow]:
    """Read the rows of jobs that were claimed again, after a retry or a release, and write the new worker into them.

    In the transaction of that claim; by job id. A row that no longer has the status `processing` was changed by the
    application: its job is cancelled. Raises SourceUnusable.
    """
    reclaimed = dict(rows)
    for table in sources.tables.values():
        ours = {row.key: job_id for job_id, row in rows.items() if row.source == table.source.name}
        if ours:
            found = _reclaim(connection, sources, table, list(ours), worker_id, now)
            for key, job_id in ours.items():
                reclaimed[job_id] = found.get(key) or rows[job_id]._replace(is_changed=True)
    return reclaimed


def _reclaim(
    connection: Connection, sources: Sources, table: SourceTable, keys: Sequence[str], worker_id: str, now: datetime
) -> Mapping[str, SourceRow]:
    with explained(table):
        columns = sources.columns(connection, table)
        names = _shown_columns(table.source, columns)
        native = [sources.native_key(connection, table, key) for key in keys]
        found = _read_rows(connection, table, table.lock_processing(columns, names, native), names)
        if found:
            _mark(connection, table, found, worker_id, now)
    return {str(row.key): row.source_row for row in found}


# --- write back -------------------------------------------------------------------------------------------


def write_rows(
    connection: Connection, settler: Settler, settled: Sequence[Settlement], now: datetime
) -> Iterator[LogMessage]:
    """A follow-up of settle: the final status of each row, or attempts and error while a retry waits."""
    groups: dict[tuple[str, Outcome, int], list[Job]] = defaultdict(list)
    for each in settled:
        if each.job.source_row is not None and not each.job.source_row.is_changed:
            used = each.job.attempt - (1 if each.outcome.keeps_attempt else 0)
            groups[each.job.source_row.source, each.outcome, used].append(each.job)
    for (name, outcome, attempts), jobs in groups.items():
        table = settler.sources.tables.get(name) if settler.sources else None
        if settler.sources is None or table is None:
            yield log_messages.source_missing(name, len(jobs))
            continue
        with explained(table):
            writer = _RowWriter(connection, settler.sources, table, settler.worker_id)
            written = writer.write(jobs, outcome, attempts, now)
        changed = [job for job in jobs if job.source_row is not None and job.source_row.key not in written]
        if outcome.kind is OutcomeKind.DONE and changed:
            if settler.requires_rows:
                raise RowChanged(ROW_CHANGED)
            connection.execute(NOTE_CHANGED_ROW, {"note": ROW_CHANGED}, [job.id for job in changed])
        if outcome.kind.is_final:
            for job in changed:
                assert job.source_row is not None
                yield log_messages.row_changed(job.id, job.type, job.source_row.key, name)


def without_row(settlement: Settlement, unusable: SourceUnusable) -> Settlement:
    """The same, but nothing is written to a row of this source.

    A job that is done becomes dead: its row keeps the status `processing`, and an operator decides.
    """
    job, outcome = settlement.job, settlement.outcome
    if job.source_row is None or job.source_row.source != unusable.source:
        return settlement
    job.source_row = job.source_row._replace(is_changed=True)
    if outcome.kind is OutcomeKind.DONE:
        reason = f"the job was done, but not written to its row: {unusable}"
        outcome = Outcome(OutcomeKind.DEAD, error=reason, attempt_ending=OutcomeKind.FAILED)
    return Settlement(job, outcome, settlement.duration_ms)


class _RowWriter(NamedTuple):
    connection: Connection
    sources: Sources
    table: SourceTable
    worker_id: str

    def write(self, jobs: Sequence[Job], outcome: Outcome, attempts: int, now: datetime) -> set[str]:
        """The keys of the rows that were written; the others are no longer ours."""
        keys = [job.source_row.key for job in jobs if job.source_row is not None]
        changes = self._changes(outcome, attempts, now)
        if not changes:
            return set(keys)
        native = [self.sources.native_key(self.connection, self.table, key) for key in keys]
        source = self.table.source
        owner = {} if source.worker_id is None else {source.worker_id: self.worker_id}
        update = self.table.update(native, changes, {source.status: source.processing, **owner})
        if self.connection.execute(update.sql, update.values).rowcount == len(keys):
            return set(keys)
        final = {source.status: changes.get(source.status, source.processing), **owner}
        find = self.table.find(native, final)
        return {str(key) for key in self.connection.execute(find.sql, find.values).scalars()}

    def _changes(self, outcome: Outcome, attempts: int, now: datetime) -> dict[str, Any]:
        source = self.table.source
        changes: dict[str, Any] = {}
        if outcome.kind.is_final:
            changes[source.status] = final_value(source, outcome.kind)
            if source.finished_at is not None:
                changes[source.finished_at] = self.table.times.stored(now)
        if source.attempts is not None:
            changes[source.attempts] = attempts
        if source.error is not None:
            changes[source.error] = self._error(outcome)
        return changes

    def _error(self, outcome: Outcome) -> str | None:
        if outcome.error is None or outcome.kind is OutcomeKind.DONE:
            return None
        column = self.sources.columns(self.connection, self.table)[self.table.source.error or ""]
        message = outcome.error.partition("\n")[0]
        return message[: column.max_length] if column.max_length else bounded(message)


def final_value(source: SourceSettings, kind: OutcomeKind) -> str | int:
    return {
        OutcomeKind.DONE: source.done,
        OutcomeKind.DEAD: source.failed,
        OutcomeKind.CANCELLED: source.cancelled_value,
    }[kind]


# --- actions of operators -----------------------------------------------------------------------------------


def cancel_rows(connection: Connection, sources: Sources, ids: Sequence[int], now: datetime) -> None:
    """Of pending companions that an operator has cancelled: their rows get the final status."""
    for table, keys in _rows_of(connection, sources, ids):
        source = table.source
        changes: dict[str, Any] = {source.status: source.cancelled_value}
        if source.finished_at is not None:
            changes[source.finished_at] = table.times.stored(now)
        _write(connection, table, table.update(keys, changes, {source.status: source.processing}))


def reopen_rows(connection: Connection, sources: Sources, ids: Sequence[int]) -> None:
    """Of ended companions that an operator retries: their rows are `processing` again, unless they were changed."""
    for table, keys in _rows_of(connection, sources, ids):
        source = table.source
        for ended in {source.failed, source.cancelled_value}:
            _write(connection, table, table.update(keys, {source.status: source.processing}, {source.status: ended}))


def _write(connection: Connection, table: SourceTable, update: Statement) -> None:
    with explained(table):
        connection.execute(update.sql, update.values)


def _rows_of(
    connection: Connection, sources: Sources, ids: Sequence[int]
) -> Iterator[tuple[SourceTable, list[str | int]]]:
    rows = [source_row_of(key) for key in connection.execute(COMPANIONS, ids=ids).scalars()] if ids else []
    keys: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row is not None:
            keys[row.source].append(row.key)
    for name, found in keys.items():
        if (table := sources.tables.get(name)) is not None:
            yield table, [sources.native_key(connection, table, key) for key in found]
