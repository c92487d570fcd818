"""Write the outcome of a job to the row it comes from, in the transaction that settles, cancels or retries the job.

Changes by the application win: a row that no longer has the status `processing` and this worker's id is left alone.
Lock order: job, then row.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mayfly import log_messages
from mayfly.db.connection import Connection
from mayfly.errors import SourceUnusable
from mayfly.job import Job, source_row_of
from mayfly.log_messages import LogMessage
from mayfly.queue.outcome import DONE, Outcome, OutcomeKind, RowChanged, Settlement, Settler, bounded
from mayfly.queue.source_table import SourceTable, Statement
from mayfly.queue.sources import Sources, explained
from mayfly.settings.values import SourceSettings

ROW_CHANGED = "row changed: the application has changed or deleted the row while the job was live"
NOTE_CHANGED_ROW = "UPDATE mayfly_jobs SET last_error = :note WHERE {ids of id}"
COMPANIONS = "SELECT unique_key FROM mayfly_jobs WHERE {ids of id} AND unique_key IS NOT NULL"


def write_rows(
    connection: Connection, settler: Settler, settled: Sequence[Settlement], now: datetime
) -> Iterator[LogMessage]:
    """A follow-up of settle: the final status of each row, or attempts and error while a retry waits."""
    groups: dict[tuple[str, Outcome | None, int], list[Job]] = defaultdict(list)
    for each in settled:
        if each.job.source_row is not None and not each.job.source_row.is_changed:
            used = each.job.attempt - (1 if each.outcome.keeps_attempt else 0)
            # Most are the constant DONE; hashing an Outcome would take as long as everything else here.
            other = None if each.outcome is DONE else each.outcome
            groups[each.job.source_row.source, other, used].append(each.job)
    for (name, other, attempts), jobs in groups.items():
        outcome = other or DONE
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
