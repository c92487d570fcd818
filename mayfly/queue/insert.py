"""Enqueue jobs: check them at the door, then one INSERT, in a transaction of ours or of the application's."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from mayfly import json_text
from mayfly.db.connection import AnyConnection
from mayfly.db.dialects import Dialect
from mayfly.errors import BadField, BadPayload, PayloadTooLarge
from mayfly.job import parent_id
from mayfly.limits.limit import Limit, NoKey, limit_request
from mayfly.queue.failure import storable
from mayfly.queue.options import CONFLICTS, KEEP, LIVE, JobOptions, Now, due_at, expiry, unique_scope
from mayfly.queue.unique import insert_unique, keeping_keys, release_finished
from mayfly.registry import Handler, Model
from mayfly.schema import tables
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH, PRIORITIES

if TYPE_CHECKING:
    from mayfly.settings import Settings

ROWS_PER_STATEMENT = 1000
BYTES_PER_STATEMENT = 1 << 20  # well below every server's default packet
MAX_UNCHECKED_BYTES = 128 << 10  # below this no server's packet limit is worth a question


class NewJob(NamedTuple):
    """A job that passed the door. None leaves the column to the database's default."""

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
    on_conflict: str | None = None  # no column; None: whoever holds the unique key is kept

    @property
    def columns(self) -> tuple[str, ...]:
        """Those that have a value."""
        if self[_REQUIRED:] == _NO_OPTIONS:
            return self._fields[:_REQUIRED]
        return tuple(name for name, value in zip(self._fields[:_COLUMNS], self, strict=False) if value is not None)

    @property
    def values(self) -> tuple[Any, ...]:
        """Of these columns."""
        if self[_REQUIRED:] == _NO_OPTIONS:
            return self[:_REQUIRED]
        return tuple(value for value in self[:_COLUMNS] if value is not None)

    @property
    def row(self) -> Mapping[str, Any]:
        return dict(zip(self.columns, self.values, strict=True))

    @property
    def most_bytes(self) -> int:
        """No fewer than it has in a statement, and cheaper to know: two a character if all are ASCII, else four."""
        return len(self.payload) * (2 if self.payload.isascii() else 4) + 512

    @property
    def statement_bytes(self) -> int:
        """As the driver sends it: quotes and backslashes are escaped by one more byte each."""
        text = self.payload
        return len(text.encode()) + text.count('"') + text.count("'") + text.count("\\") + 512


_REQUIRED = 5
_COLUMNS = len(NewJob._fields) - 1
_NO_OPTIONS = (None,) * (len(NewJob._fields) - _REQUIRED)


@dataclass(frozen=True)
class JobValidator:
    """Checks every new job, whether it comes from Python, the command line, HTTP or a schedule."""

    payload_limit: int
    max_attempts: int  # where neither the job nor its handler has its own
    now: Now  # the database's time
    max_unique: timedelta = timedelta.max  # a unique key is held for at most as long as finished jobs are kept

    @classmethod
    def from_settings(cls, settings: "Settings", now: Now) -> Self:
        kept = (settings.keep_done_days, settings.keep_cancelled_days, settings.keep_dead_days)
        max_unique = timedelta(days=min(days for days in kept if days is not None))
        return cls(settings.payload_limit, settings.max_attempts, now, max_unique)

    def validate(
        self, type_name: str, payload: object, handler: Handler | None = None, **options: Unpack[JobOptions]
    ) -> NewJob:
        """The job as it will be inserted, or an error that says what is wrong with it."""
        due = due_at(options, self.now)
        scope = unique_scope(options, self.max_unique, self.now)
        expires_at = expiry(options, due, self.now)
        terms = self._terms(type_name, handler, options)
        return NewJob(  # by position, which takes less than half the time of names
            terms.type,
            self._payload(type_name, payload, handler),
            terms.lane,
            terms.max_attempts,
            terms.priority,
            due,
            _key("unique_key", options.get("unique_key")),
            _key("group_key", options.get("group_key")),
            expires_at,
            scope.name if scope.name != LIVE else None,
            scope.until,
            current_traceparent(),
            parent_id(),
            _conflict(options.get("on_conflict")),
        )

    def _terms(self, type_name: str, handler: Handler | None, options: JobOptions) -> "_Terms":
        """What is not given is the handler's, or Mayfly's own default."""
        lane, max_attempts, priority = options.get("lane"), options.get("max_attempts"), options.get("priority")
        if lane is None:
            lane = handler.lane if handler else "default"
        if max_attempts is None:
            max_attempts = (handler.max_attempts if handler else None) or self.max_attempts
        return _terms(type_name, lane, max_attempts, tables.NORMAL if priority is None else priority)

    def _payload(self, type_name: str, payload: object, handler: Handler | None) -> str:
        if type(payload) is not dict:  # as nearly all are: to ask for a Mapping takes longer
            if not isinstance(payload, Mapping):
                raise BadPayload(type_name, f"it must be a JSON object, not {type(payload).__name__}")
            payload = dict(payload)
        try:
            text = json_text.encode(payload)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadPayload(type_name, f"it is no JSON ({error})") from error
        if 4 * len(text) > self.payload_limit and len(text.encode()) > self.payload_limit:
            raise PayloadTooLarge(type_name, len(text.encode()), self.payload_limit, "PAYLOAD_LIMIT")
        if handler is not None and handler.model is not None:
            _fit(type_name, handler.model, text)
        if handler is not None and handler.limits:
            _fill_keys(type_name, handler.limits, text)
        return text


def insert_job(connection: AnyConnection, job: NewJob, now: datetime | None = None) -> int:
    """The new job's id, or the id of the job that already holds its unique key.

    `now` is for keys that are held for a time; without it the database looks at its own clock.
    """
    refuse_beyond_packet(connection, [job])
    dialect, row = connection.dialect, job.row
    if job.unique_key is not None:
        answer = insert_unique(connection, row, job.on_conflict, now)
        assert answer.job_id is not None
        return answer.job_id
    inserted = connection.execute(insert_statement(dialect, tuple(row)), row)
    return int(inserted.lastrowid if dialect.has_lastrowid else inserted.scalar())


@cache
def insert_statement(dialect: Dialect, columns: tuple[str, ...]) -> str:
    """Of a job without a unique key."""
    returning = "" if dialect.has_lastrowid else " RETURNING id"
    return dialect.insert("mayfly_jobs", columns) + returning


def insert_jobs(connection: AnyConnection, new: Iterable[NewJob], now: datetime | None = None) -> int:
    """How many were inserted, or have replaced another; those whose unique key is held are left out."""
    return sum(insert_slice(connection, each, now) for each in slices(new))


def slices(new: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """Neighbours with the same columns share a statement, bounded in rows and bytes."""
    current: list[NewJob] = []
    columns: tuple[str, ...] = ()
    room = 0
    for job in new:
        if job.on_conflict is not None:  # by itself, and before the next is even asked for
            if current:
                yield current
                current = []
            yield [job]
            continue
        size, its_columns = job.most_bytes, job.columns
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
    """One of `slices`."""
    refuse_beyond_packet(connection, new)
    if new[0].on_conflict is not None:
        return int(insert_unique(connection, new[0].row, new[0].on_conflict, now).is_ours)
    if new[0].unique_key is None:
        return _insert_many(connection, new, ("", ""))
    kept = keeping_keys(connection.dialect)
    inserted = _insert_many(connection, new, kept)
    if inserted == len(new):
        return inserted
    over = release_finished(connection, {job.unique_key or "" for job in new}, now)
    left_out = [job for job in new if job.unique_key in over]
    return inserted + (_insert_many(connection, left_out, kept) if left_out else 0)


def _insert_many(connection: AnyConnection, new: Sequence[NewJob], kept: tuple[str, str]) -> int:
    rows = [job.values for job in new]
    return connection.dialect.insert_many(connection, "mayfly_jobs", new[0].columns, rows, kept)


def needs_no_packet_check(new: Iterable[NewJob]) -> bool:
    """Whether any server takes them."""
    longest = max((len(job.payload) for job in new), default=0)
    return 4 * longest + 512 <= MAX_UNCHECKED_BYTES  # a character has four bytes at most, or two that are escaped


def refuse_beyond_packet(connection: AnyConnection, new: Sequence[NewJob]) -> None:
    if needs_no_packet_check(new):
        return
    largest = max(new, key=lambda job: job.statement_bytes)
    limit = connection.dialect.packet_limit(connection)
    if limit is not None and largest.statement_bytes > limit:
        raise PayloadTooLarge(largest.type, largest.statement_bytes, limit, "the server's max_allowed_packet")


def _fit(type_name: str, model: Model, text: str) -> None:
    try:
        model.model_validate(json_text.decode(text))
    except ValueError as error:
        raise BadPayload(type_name, describe_payload_errors(error), payload_errors(error)) from error


def _fill_keys(type_name: str, limits: Sequence[Limit], text: str) -> None:
    """A job that nobody could say the limits of would be dead before it starts."""
    try:
        limit_request(limits, json_text.decode(text))
    except NoKey as error:
        raise BadPayload(type_name, str(error)) from error


def describe_payload_errors(error: ValueError) -> str:
    """pydantic's findings as one line: field, and what is wrong with it. Never the value: it may be a secret."""
    found = _error_items(error)
    if found is None:
        return str(error)
    return "; ".join(f"{_where(each) or 'payload'}: {each['msg']}" for each in found)


def payload_errors(error: ValueError) -> list[str]:
    """The fields that do not fit, as paths."""
    return [where for each in _error_items(error) or () if (where := _where(each))]


def _error_items(error: ValueError) -> Any:
    findings = getattr(error, "errors", None)
    return None if findings is None else findings(include_url=False, include_input=False, include_context=False)


def _where(finding: Mapping[str, Any]) -> str:
    return ".".join(map(str, finding["loc"]))


class _Terms(NamedTuple):
    """What many jobs have in common."""

    type: str
    lane: str
    max_attempts: int
    priority: int


def _terms(type_name: str, lane: str, max_attempts: int, priority: int) -> _Terms:
    try:
        return _remembered_terms(type_name, lane, max_attempts, priority)
    except TypeError:  # of something that cannot be remembered: the check says which
        return _checked_terms(type_name, lane, max_attempts, priority)


def _checked_terms(type_name: str, lane: str, max_attempts: int, priority: int) -> _Terms:
    return _Terms(
        _name("type", type_name),
        _name("lane", lane),
        _at_least_one("max_attempts", max_attempts),
        _one_of("priority", priority, PRIORITIES),
    )


# Typed, because True is no 1 here. There are few lanes and types, and many jobs.
_remembered_terms = lru_cache(typed=True)(_checked_terms)


def _name(field: str, given: str) -> str:
    if not isinstance(given, str) or not _is_name(given):
        raise BadField(field, given, f"a text of 1 to {NAME_LENGTH} characters that every database can hold")
    return given


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= NAME_LENGTH and storable(text) == text


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


def _conflict(given: str | None) -> str | None:
    if given is None or given == KEEP:
        return None
    if not isinstance(given, str) or given not in CONFLICTS:
        raise BadField("on_conflict", given, f"one of {', '.join(CONFLICTS)}")
    return given


STORED_FIELDS = ("type", "payload", "lane", "max_attempts", "priority")


class FutureJob(NamedTuple):
    """A job, and how many seconds after its turn has come it is due."""

    job: NewJob
    delay: float = 0.0

    def packed(self) -> dict[str, Any]:
        return {**{name: getattr(self.job, name) for name in STORED_FIELDS}, "delay": self.delay}

    def due_from(self, now: datetime) -> NewJob:
        return self.job._replace(run_at=now + timedelta(seconds=self.delay))

    def with_field(self, name: str, value: object) -> "FutureJob":
        """The same with one more field in its payload."""
        payload = {**json_text.decode(self.job.payload), name: value}
        return self._replace(job=self.job._replace(payload=json_text.encode(payload)))


def unpacked(kept: Mapping[str, Any]) -> FutureJob:
    return FutureJob(NewJob(**{name: kept[name] for name in STORED_FIELDS}), kept["delay"])


def current_traceparent() -> str | None:
    """Where the application has OpenTelemetry and a span is open. Where it has not, this is one look into a dict."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
