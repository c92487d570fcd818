"""Insert jobs and enforce unique keys, in our own transaction or in the application's.

A constraint of the table decides which job holds a unique key, never a query before the insert.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.db.connection import AnyConnection, numbered_parameters, placeholders
from mayfly.db.dialects import Dialect
from mayfly.errors import KeyHeld, PayloadTooLarge
from mayfly.schema.tables import HOLDS_UNIQUE_KEY

ROWS_PER_STATEMENT = 1000
BYTES_PER_STATEMENT = 1 << 20  # well below every server's default packet size
MAX_UNCHECKED_BYTES = 128 << 10  # smaller statements fit into the packet of every server

LIVE, PENDING, TIME = "live", "pending", "time"  # unique_scope: how long a unique key is held
KEEP, REPLACE, ERROR = "keep", "replace", "error"  # on_conflict: what happens to the second job
CONFLICTS = (KEEP, REPLACE, ERROR)

# Overwritten when a job replaces another: all that its producer passed, except for how long the key is held.
REPLACED_COLUMNS = ("type", "payload", "lane", "max_attempts", "priority", "run_at", "group_key", "expires_at")


class NewJob(NamedTuple):
    """A validated job. None leaves the column to the database's default."""

    type: str
    payload: str
    lane: str
    max_attempts: int
    priority: int
    run_at: datetime | None = None
    unique_key: str | None = None
    group_key: str | None = None
    expires_at: datetime | None = None
    unique_scope: str | None = None
    unique_until: datetime | None = None
    trace_context: str | None = None
    parent_id: int | None = None
    on_conflict: str | None = None  # not a column; None: the job that holds the unique key is kept

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have a value."""
        if self[_REQUIRED:] == _NO_OPTIONS:
            return self._fields[:_REQUIRED]
        return tuple(name for name, value in zip(self._fields[:_COLUMNS], self, strict=False) if value is not None)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of `columns`."""
        if self[_REQUIRED:] == _NO_OPTIONS:
            return self[:_REQUIRED]
        return tuple(value for value in self[:_COLUMNS] if value is not None)

    @property
    def row(self) -> Mapping[str, Any]:
        return dict(zip(self.columns, self.values, strict=True))

    @property
    def max_bytes(self) -> int:
        """An upper bound that is fast to compute: two bytes per character if all are ASCII, else four."""
        return len(self.payload) * (2 if self.payload.isascii() else 4) + 512

    @property
    def statement_bytes(self) -> int:
        """As the driver sends it: quotes and backslashes are escaped by one more byte each."""
        text = self.payload
        return len(text.encode()) + text.count('"') + text.count("'") + text.count("\\") + 512


_REQUIRED = 5
_COLUMNS = len(NewJob._fields) - 1
_NO_OPTIONS = (None,) * (len(NewJob._fields) - _REQUIRED)
STORED_FIELDS = ("type", "payload", "lane", "max_attempts", "priority")


class FutureJob(NamedTuple):
    """A job to enqueue later, as the step of a chain or the callback of a batch; its delay counts from then on."""

    job: NewJob
    delay: float = 0.0  # seconds

    def to_dict(self) -> dict[str, Any]:
        return {**{name: getattr(self.job, name) for name in STORED_FIELDS}, "delay": self.delay}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "FutureJob":
        return cls(NewJob(**{name: stored[name] for name in STORED_FIELDS}), stored["delay"])

    def starting_at(self, now: datetime) -> NewJob:
        return self.job._replace(run_at=now + timedelta(seconds=self.delay))


def insert_job(connection: AnyConnection, job: NewJob, now: datetime | None = None) -> int:
    """The new job's id, or the id of the job that already holds its unique key.

    `now` is for keys that are held for a time; without it the database's own clock decides.
    """
    refuse_beyond_packet(connection, [job])
    dialect, row = connection.dialect, job.row
    if job.unique_key is not None:
        answer = _insert_unique(connection, row, job.on_conflict, now)
        assert answer.job_id is not None
        return answer.job_id
    inserted = connection.execute(insert_statement(dialect, tuple(row)), row)
    return int(inserted.lastrowid if dialect.has_lastrowid else inserted.scalar())


def insert_jobs(connection: AnyConnection, new: Iterable[NewJob], now: datetime | None = None) -> int:
    """Returns how many were inserted or replaced another; jobs whose unique key is held are skipped."""
    return sum(insert_slice(connection, each, now) for each in slices(new))


def slices(new: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """Neighbours with the same columns share a statement, bounded in rows and bytes."""
    current: list[NewJob] = []
    columns: tuple[str, ...] = ()
    room = 0
    for job in new:
        if job.on_conflict is not None:  # in a statement of its own, before the next job is read from the iterable
            if current:
                yield current
                current = []
            yield [job]
            continue
        size, its_columns = job.max_bytes, job.columns
        if current and (size > room or len(current) == ROWS_PER_STATEMENT or its_columns != columns):
            yield current
            current = []
        if not current:
            columns, room = its_columns, BYTES_PER_STATEMENT
        current.append(job)
        room -= size
    if current:
        yield current


def insert_slice(connection: AnyConnection, new: Sequence[NewJob], now: datetime | None = None) -> int:
    """Insert one of the lists that `slices` yields."""
    refuse_beyond_packet(connection, new)
    if new[0].on_conflict is not None:
        return int(_insert_unique(connection, new[0].row, new[0].on_conflict, now).is_ours)
    if new[0].unique_key is None:
        return _insert_many(connection, new, ("", ""))
    keeping = keeping_keys(connection.dialect)
    inserted = _insert_many(connection, new, keeping)
    if inserted == len(new):
        return inserted
    released = _release_finished(connection, {job.unique_key or "" for job in new}, now)
    skipped = [job for job in new if job.unique_key in released]
    return inserted + (_insert_many(connection, skipped, keeping) if skipped else 0)


def _insert_many(connection: AnyConnection, new: Sequence[NewJob], keeping: tuple[str, str]) -> int:
    rows = [job.values for job in new]
    return connection.dialect.insert_many(connection, "mayfly_jobs", new[0].columns, rows, keeping)


@cache
def insert_statement(dialect: Dialect, columns: tuple[str, ...]) -> str:
    """For a job without a unique key."""
    returning = "" if dialect.has_lastrowid else " RETURNING id"
    return dialect.insert("mayfly_jobs", columns) + returning


def needs_no_packet_check(new: Iterable[NewJob]) -> bool:
    """Whether every server accepts them. A character has at most four bytes, or two with its escape."""
    return all(4 * len(job.payload) + 512 <= MAX_UNCHECKED_BYTES for job in new)


def refuse_beyond_packet(connection: AnyConnection, new: Sequence[NewJob]) -> None:
    if needs_no_packet_check(new):
        return
    largest = max(new, key=lambda job: job.statement_bytes)
    limit = connection.dialect.packet_limit(connection)
    if limit is not None and largest.statement_bytes > limit:
        raise PayloadTooLarge(largest.type, largest.statement_bytes, limit, "the server's max_allowed_packet")


# --- unique keys ------------------------------------------------------------------------------------------


class InsertResult(NamedTuple):
    """The result of one try to insert a job with a unique key."""

    job_id: int | None  # None: the key has been released, try again
    is_ours: bool = False  # our job was inserted, or has replaced the one that held the key


def _insert_unique(
    connection: AnyConnection, row: Mapping[str, Any], on_conflict: str | None, now: datetime | None
) -> InsertResult:
    """Returns the job that now holds the key. Without `now` the statement reads the database's clock."""
    insert = _insert_returning if connection.dialect.has_insert_returning else _insert_then_find
    holder = InsertResult(None)
    while holder.job_id is None:
        holder = insert(connection, row, on_conflict == REPLACE, now)
    if on_conflict == ERROR and not holder.is_ours:
        raise KeyHeld(row["unique_key"], holder.job_id)
    return holder


def _insert_returning(
    connection: AnyConnection, row: Mapping[str, Any], replaces: bool, now: datetime | None
) -> InsertResult:
    dialect, key = connection.dialect, {"unique_key": row["unique_key"], "now": now}
    statement = insert_or_keep_statement(dialect, tuple(row), replaces)
    found = connection.execute(statement, {**row, "now": now} if replaces else row).scalar()
    if found is not None:
        return InsertResult(int(found), is_ours=True)
    found = connection.execute(holder_statement(dialect), key).scalar()
    if found is None:
        return InsertResult(None)  # the holder ended between the two statements
    if found < 0:
        connection.execute(release_statement(dialect, ["unique_key"]), key)
        return InsertResult(None)
    return InsertResult(int(found))


def _insert_then_find(
    connection: AnyConnection, row: Mapping[str, Any], replaces: bool, now: datetime | None
) -> InsertResult:
    """One statement: a second one would not see the holder inside an application's REPEATABLE READ transaction."""
    dialect = connection.dialect
    statement = insert_or_find_statement(dialect, tuple(row), replaces)
    found = dialect.found(connection.execute(statement, {**row, "now": now}).lastrowid)
    return InsertResult(None) if found.is_released else InsertResult(found.id, is_ours=not found.is_held)


def _release_finished(connection: AnyConnection, keys: Iterable[str], now: datetime | None) -> Collection[str]:
    """Release the keys whose time is over, and return them."""
    values = {**numbered_parameters(sorted(keys)), "now": now}
    names = [name for name in values if name != "now"]
    finished = set(connection.execute(finished_statement(connection.dialect, names), values).scalars())
    if finished:
        connection.execute(release_statement(connection.dialect, names), values)
    return finished


HOLDERS = f"unique_key IS NOT NULL AND {HOLDS_UNIQUE_KEY}"


def keeping_keys(dialect: Dialect) -> tuple[str, str]:
    """The SQL before INTO and after the values that leaves the holder of a key unchanged."""
    return dialect.keeping("unique_key", HOLDERS)


@cache
def insert_or_keep_statement(dialect: Dialect, columns: tuple[str, ...], replaces: bool = False) -> str:
    """Returns no id if the holder was left unchanged."""
    before, after = keeping_keys(dialect)
    if replaces:
        after = dialect.replacing("unique_key", HOLDERS, _replacement(dialect, columns), _replaceable(dialect))
    return f"{dialect.insert('mayfly_jobs', columns, before)}{after} RETURNING id"


@cache
def insert_or_find_statement(dialect: Dialect, columns: tuple[str, ...], replaces: bool) -> str:
    """`Dialect.found` reads the result from its `lastrowid`."""
    changes = _replacement(dialect, columns) if replaces else {}
    replaceable = _replaceable(dialect) if replaces else "FALSE"
    finding = dialect.finding("id", "unique_key", _is_finished(dialect), changes, replaceable)
    return dialect.insert("mayfly_jobs", columns) + finding


@cache
def holder_statement(dialect: Dialect) -> str:
    """The holder's id, negative if its time is over: a single number has the same type in every driver."""
    holder = f"CASE WHEN {_is_finished(dialect)} THEN -id ELSE id END"
    return f"SELECT {holder} FROM mayfly_jobs WHERE unique_key = :unique_key AND {HOLDERS}"


def finished_statement(dialect: Dialect, names: Collection[str]) -> str:
    return f"{held_among_statement(dialect, names)} AND {_is_finished(dialect)}{dialect.newest}"


def held_among_statement(dialect: Dialect, names: Collection[str]) -> str:
    """Selects which of the keys, passed under these parameter names, a job holds."""
    return f"SELECT unique_key FROM mayfly_jobs WHERE {_holders_of(dialect, names)}"


def release_statement(dialect: Dialect, names: Collection[str]) -> str:
    holders = f"{_holders_of(dialect, names)} AND {_is_finished(dialect)}"
    return f"UPDATE mayfly_jobs SET unique_key = NULL WHERE {holders}"


def _holders_of(dialect: Dialect, names: Collection[str]) -> str:
    return f"{dialect.held_key('unique_key')} IN ({placeholders(names)}) AND {HOLDERS}"


def _is_finished(dialect: Dialect) -> str:
    now = f"COALESCE(:now, {dialect.utc_now})"
    return f"mayfly_jobs.unique_scope = '{TIME}' AND mayfly_jobs.unique_until <= {now}"


def _replaceable(dialect: Dialect) -> str:
    """The holder was never claimed, and the time of its key is not over."""
    return f"mayfly_jobs.status = 'pending' AND mayfly_jobs.claims = 0 AND NOT ({_is_finished(dialect)})"


def _replacement(dialect: Dialect, columns: Collection[str]) -> dict[str, str]:
    """The new value of each column; a column that was not passed gets the default of a new job."""
    defaults = {"run_at": dialect.utc_now}
    return {name: dialect.given(name) if name in columns else defaults.get(name, "NULL") for name in REPLACED_COLUMNS}
