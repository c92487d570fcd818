"""Enqueue jobs: check them at the door, then one INSERT, in a transaction of ours or of the application's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, insert, select
from sqlalchemy import text as sql

from mayfly import dialect, jsontext, schema
from mayfly.errors import BadField, BadPayload, PayloadTooLarge
from mayfly.jobs.foreign import AnyConnection
from mayfly.registry import Handler, Model
from mayfly.schema import KEY_LENGTH, NAME_LENGTH, PRIORITIES, JobTable
from mayfly.wording import storable

ROWS_PER_STATEMENT = 1000
BYTES_PER_STATEMENT = 1 << 20  # well below every server's default packet
UNQUESTIONED_BYTES = 128 << 10  # below this no server's packet limit is worth a question


@dataclass(frozen=True)
class NewJob:
    """A job that passed the door. None leaves the column to the database's default."""

    type: str
    payload: str
    lane: str
    max_attempts: int
    priority: int
    run_at: datetime | None = None
    unique_key: str | None = None
    group_key: str | None = None

    @cached_property
    def row(self) -> Mapping[str, Any]:
        row = {"type": self.type, "payload": self.payload, "lane": self.lane, "priority": self.priority,
               "max_attempts": self.max_attempts}  # fmt: skip
        optional = {"run_at": self.run_at, "unique_key": self.unique_key, "group_key": self.group_key}
        return row | {name: value for name, value in optional.items() if value is not None}

    @cached_property
    def statement_bytes(self) -> int:
        """As the driver sends it: quotes and backslashes are escaped by one more byte each."""
        text = self.payload
        return len(text.encode()) + text.count('"') + text.count("'") + text.count("\\") + 512


@dataclass(frozen=True)
class Door:
    """What is checked of every job that comes in through Python, the command line or HTTP."""

    payload_limit: int
    max_attempts: int

    def admit(
        self,
        type_name: str,
        payload: object,
        handler: Handler | None,
        *,
        lane: str | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
        unique_key: str | None = None,
        group_key: str | None = None,
        max_attempts: int | None = None,
    ) -> NewJob:
        """The job as it will be inserted, or the sentence that says why not."""
        usual_lane = handler.lane if handler else "default"
        usual_attempts = (handler.max_attempts if handler else None) or self.max_attempts
        return NewJob(
            type=_name("type", type_name),
            payload=self._payload(type_name, payload, handler),
            lane=_name("lane", usual_lane if lane is None else lane),
            max_attempts=_at_least_one("max_attempts", usual_attempts if max_attempts is None else max_attempts),
            priority=_one_of("priority", schema.NORMAL if priority is None else priority, PRIORITIES),
            run_at=_utc(run_at),
            unique_key=_key("unique_key", unique_key),
            group_key=_key("group_key", group_key),
        )

    def _payload(self, type_name: str, payload: object, handler: Handler | None) -> str:
        if not isinstance(payload, Mapping):
            raise BadPayload(type_name, f"it must be a JSON object, not {type(payload).__name__}")
        try:
            text = jsontext.encode(dict(payload))
        except (TypeError, ValueError, RecursionError) as error:
            raise BadPayload(type_name, f"it is no JSON ({error})") from error
        if len(text.encode()) > self.payload_limit:
            raise PayloadTooLarge(type_name, len(text.encode()), self.payload_limit, "PAYLOAD_LIMIT")
        if handler is not None and handler.model is not None:
            _fit(type_name, handler.model, text)
        return text


def insert_job(connection: AnyConnection, jobs: JobTable, job: NewJob) -> int:
    """The new job's id, or the id of the live job that already holds its unique key."""
    _refuse_beyond_packet(connection, [job])
    if not dialect.has_insert_returning(connection.dialect):
        return connection.execute(dialect.insert_or_find(jobs.table), job.row).lastrowid
    inserting = insert_statement(connection.dialect, jobs, job).returning(jobs.table.c.id)
    while True:
        found = connection.execute(inserting, job.row).scalar()
        if found is None:
            found = connection.execute(holder_statement(jobs, job.unique_key)).scalar()
        if found is not None:
            return int(found)
        # The holder ended between the two statements: the key is free now.


def insert_jobs(connection: AnyConnection, jobs: JobTable, new: Iterable[NewJob]) -> int:
    """How many were inserted; those whose unique key is held are left out."""
    return sum(insert_slice(connection, jobs, each) for each in slices(new))


def insert_statement(dialect_: Dialect, jobs: JobTable, job: NewJob) -> Insert:
    if job.unique_key is None:
        return insert(jobs.table)
    return dialect.insert_or_keep(dialect_, jobs.table, _live(jobs))


def holder_statement(jobs: JobTable, unique_key: str | None) -> Any:
    return select(jobs.c.id).where(jobs.c.unique_key == unique_key, sql(_live(jobs)))


def _live(jobs: JobTable) -> str:
    """Written out, not bound: a partial index is matched by these words, and a parameter could be anything."""
    return f"unique_key IS NOT NULL AND status IN ('{jobs.pending}', '{jobs.processing}')"


def slices(new: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """Neighbours with the same columns share a statement, bounded in rows and bytes."""
    current: list[NewJob] = []
    size = 0
    for job in new:
        full = len(current) == ROWS_PER_STATEMENT or size + job.statement_bytes > BYTES_PER_STATEMENT
        if current and (full or job.row.keys() != current[0].row.keys()):
            yield current
            current, size = [], 0
        current.append(job)
        size += job.statement_bytes
    if current:
        yield current


def insert_slice(connection: AnyConnection, jobs: JobTable, new: Sequence[NewJob]) -> int:
    """One of `slices`."""
    _refuse_beyond_packet(connection, new)
    statement = insert_statement(connection.dialect, jobs, new[0])
    rows = [job.row for job in new]
    if isinstance(connection, Connection) and dialect.has_insert_returning(connection.dialect):
        # SQLAlchemy writes one INSERT of many rows there, which has no row count of its own.
        return len(connection.execute(statement.returning(jobs.table.c.id), rows).all())
    return connection.execute(statement, rows).rowcount


def _refuse_beyond_packet(connection: AnyConnection, new: Sequence[NewJob]) -> None:
    largest = max(new, key=lambda job: job.statement_bytes)
    if largest.statement_bytes <= UNQUESTIONED_BYTES:
        return
    limit = dialect.packet_limit(connection)
    if limit is not None and largest.statement_bytes > limit:
        raise PayloadTooLarge(largest.type, largest.statement_bytes, limit, "the server's max_allowed_packet")


def _fit(type_name: str, model: Model, text: str) -> None:
    try:
        model.model_validate(jsontext.decode(text))
    except ValueError as error:
        raise BadPayload(type_name, describe_misfit(error)) from error


def describe_misfit(error: ValueError) -> str:
    """pydantic's findings as one line: field, and what is wrong with it. Never the value: it may be a secret."""
    findings = getattr(error, "errors", None)
    if findings is None:
        return str(error)
    listed = findings(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'payload'}: {each['msg']}" for each in listed)


def _name(field: str, given: str) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > NAME_LENGTH or storable(given) != given:
        raise BadField(field, given, f"a text of 1 to {NAME_LENGTH} characters that every database can hold")
    return given


def _key(field: str, given: str | None) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not 1 <= len(given) <= KEY_LENGTH or storable(given) != given:
        raise BadField(field, given, f"a text of 1 to {KEY_LENGTH} characters that every database can hold")
    return given


def _at_least_one(field: str, given: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= 1000:
        raise BadField(field, given, "a whole number from 1 to 1000")
    return given


def _one_of(field: str, given: int, allowed: tuple[int, ...]) -> int:
    if isinstance(given, bool) or given not in allowed:
        raise BadField(field, given, f"one of {', '.join(map(str, allowed))}")
    return given


def _utc(run_at: datetime | None) -> datetime | None:
    if run_at is None:
        return None
    if not isinstance(run_at, datetime) or run_at.tzinfo is None:
        raise BadField("run_at", run_at, "a datetime with a time zone, e.g. datetime.now(UTC)")
    try:
        return run_at.astimezone(UTC)
    except OverflowError as error:
        raise BadField("run_at", run_at, "within the years 1 to 9999 in UTC") from error
