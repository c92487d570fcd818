"""The sources of a database: applications' own tables whose due rows become jobs. Their columns, and due rows.

source_claim.py claims rows, source_outcome.py writes the outcomes of their jobs back to them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from mayfly.db.connection import Connection
from mayfly.db.dialects import ErrorKind, TableColumns, reason_of
from mayfly.errors import SourceUnusable
from mayfly.queue.source_table import ALIAS, SourceTable
from mayfly.settings.values import SourceSettings

MAX_PAYLOAD_COLUMNS = 50
MIN_WORKER_ID_LENGTH = 40
# What is wrong with the settings of a source, or with its table; all other errors concern the whole database.
_SOURCE_ERRORS = (ErrorKind.NO_TABLE, ErrorKind.OTHER, ErrorKind.REFUSED)


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
            with explained(table):
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
    if source.worker_id is not None and is_too_short(found[source.worker_id].max_length):
        reason = f"the column {source.worker_id} stores less than {MIN_WORKER_ID_LENGTH} characters"
        raise SourceUnusable(source.name, f"{reason}, too few for a worker id")
    if source.payload is None and len(found) > MAX_PAYLOAD_COLUMNS:
        reason = f"the table {source.table} has {len(found)} columns; name at most {MAX_PAYLOAD_COLUMNS} in `payload`"
        raise SourceUnusable(source.name, reason)


def is_too_short(worker_id_length: int | None) -> bool:
    return worker_id_length is not None and worker_id_length < MIN_WORKER_ID_LENGTH


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
        raise SourceUnusable(table.source.name, reason_of(error).replace(f"{ALIAS}.", "")) from error


# --- count ------------------------------------------------------------------------------------------------


def count_rows(connection: Connection, table: SourceTable, now: datetime, cap: int) -> int:
    """Due rows; a result above the cap only means that there are more. Raises SourceUnusable."""
    with explained(table):
        counting = table.count(now, cap + 1)
        return sum(int(number) for (number,) in connection.execute(counting.sql, counting.values).all())


def count_by_source(
    connection: Connection,
    sources: Sources,
    tables: Iterable[SourceTable],
    now: datetime,
    cap_of: Callable[[str], int],
) -> tuple[Mapping[str, int], list[SourceUnusable]]:
    """Due rows by the names of sources that have any, and the sources that cannot be used. Caps are of lanes.

    The rows of a source whose columns do not fit are not counted: runners would claim none, again and again.
    """
    counted: dict[str, int] = {}
    problems = []
    for table in tables:
        try:
            if rows := count_rows(connection, table, now, cap_of(table.source.lane)):
                sources.columns(connection, table)
                counted[table.source.name] = rows
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
