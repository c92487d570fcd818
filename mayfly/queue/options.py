"""Validate the arguments of enqueue(): options, payload, times, unique scope. Pure: `now` is a function."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from mayfly import json_text
from mayfly.errors import BadField, BadPayload, PayloadTooLarge
from mayfly.format import moment, parse_duration
from mayfly.job import Batch, current_job
from mayfly.limits.limit import Limit, NoKey, limit_request
from mayfly.queue.insert import CONFLICTS, KEEP, PENDING, TIME, NewJob
from mayfly.queue.outcome import Seconds, seconds, storable
from mayfly.registry import Handler, Model
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH, NORMAL, PRIORITIES, SOURCE

if TYPE_CHECKING:
    from mayfly.settings import Settings

_SCOPES = "'until done', 'while pending', 'for 1h' (s, m, h or d), a number of seconds or a timedelta, more than 0"

Now = Callable[[], datetime]


class StepOptions(TypedDict, total=False):
    """Options of a step of a chain and of the callback of a batch. None always means the default."""

    lane: str | None  # where it waits: the lane of its handler, or `default`
    priority: int | None  # 0 high, 1 normal, 2 low
    max_attempts: int | None  # the handler's, or MAX_ATTEMPTS
    delay: Seconds | None  # due after this time


class JobOptions(StepOptions, total=False):
    """Options of every job, whether it is enqueued from Python, the CLI or HTTP."""

    run_at: datetime | None  # due at this time; instead of `delay`
    unique_key: str | None  # only one job holds this key
    unique: str | Seconds | None  # how long it is held: "until done", "while pending", "for 1h", or seconds
    on_conflict: str | None  # if it is held: "keep" the holder, "replace" it while it is pending, or "error"
    group_key: str | None  # a name for related jobs
    expires_at: datetime | None  # cancelled if it has not started by then
    expires_in: Seconds | None  # the same, counted from now


class EnqueueOptions(JobOptions, total=False):
    """The keyword arguments of enqueue(), besides `connection`."""

    batch: Batch | None  # the batch that the job joins; by default the one in whose `with` block it is enqueued


ENQUEUE_OPTIONS = frozenset(EnqueueOptions.__annotations__)


@dataclass(frozen=True)
class JobValidator:
    """Checks every new job: from Python, the CLI, HTTP or a schedule."""

    payload_limit: int
    max_attempts: int  # if neither the job nor its handler sets it
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
        """The job as it will be inserted; raises an error that explains what is wrong with it."""
        due = due_at(options, self.now)
        unique_scope, unique_until = scope_of(options, self.max_unique, self.now)
        lane, max_attempts, priority = options.get("lane"), options.get("max_attempts"), options.get("priority")
        on_conflict = options.get("on_conflict")
        if lane is None:
            lane = handler.lane if handler else "default"
        if max_attempts is None:
            max_attempts = (handler.max_attempts if handler else None) or self.max_attempts
        return NewJob(
            type=_name("type", type_name),
            payload=self._payload(type_name, payload, handler),
            lane=_name("lane", lane),
            max_attempts=_attempts(max_attempts),
            priority=NORMAL if priority is None else _one_of("priority", priority, PRIORITIES),
            run_at=due,
            unique_key=_unique_key(options.get("unique_key")),
            group_key=_key("group_key", options.get("group_key")),
            expires_at=expiry(options, due, self.now),
            unique_scope=unique_scope,
            unique_until=unique_until,
            trace_context=current_traceparent(),
            parent_id=None if (job := current_job()) is None else job.id,
            on_conflict=None if on_conflict in (None, KEEP) else _one_of("on_conflict", on_conflict, CONFLICTS),
        )

    def _payload(self, type_name: str, payload: object, handler: Handler | None) -> str:
        if type(payload) is not dict:  # nearly all are dicts, and isinstance(payload, Mapping) is slower
            if not isinstance(payload, Mapping):
                raise BadPayload(type_name, f"it must be a JSON object, not {type(payload).__name__}")
            payload = dict(payload)
        try:
            text = json_text.encode(payload)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadPayload(type_name, f"it is not valid JSON ({error})") from error
        if 4 * len(text) > self.payload_limit and len(text.encode()) > self.payload_limit:
            raise PayloadTooLarge(type_name, len(text.encode()), self.payload_limit, "PAYLOAD_LIMIT")
        if handler is not None and handler.model is not None:
            _check_model(type_name, handler.model, text)
        if handler is not None and handler.limits:
            _check_limit_keys(type_name, handler.limits, text)
        return text


def _check_model(type_name: str, model: Model, text: str) -> None:
    try:
        model.model_validate(json_text.decode(text))
    except ValueError as error:
        fields = [where for where, _ in _payload_errors(error) if where]
        raise BadPayload(type_name, describe_payload_errors(error), fields) from error


def _check_limit_keys(type_name: str, limits: Sequence[Limit], text: str) -> None:
    """A job whose payload gives its limits no key would be dead before it starts."""
    try:
        limit_request(limits, json_text.decode(text))
    except NoKey as error:
        raise BadPayload(type_name, str(error)) from error


def describe_payload_errors(error: ValueError) -> str:
    """pydantic's errors as one line: each field and what is wrong with it. Without values: they may be secret."""
    found = _payload_errors(error)
    return "; ".join(f"{where or 'payload'}: {message}" for where, message in found) if found else str(error)


def _payload_errors(error: ValueError) -> list[tuple[str, str]]:
    """The path of each invalid field, and why it is invalid; empty for an error that is not pydantic's."""
    findings = getattr(error, "errors", None)
    if findings is None:
        return []
    found = findings(include_url=False, include_input=False, include_context=False)
    return [(".".join(map(str, each["loc"])), each["msg"]) for each in found]


def _name(field: str, given: str) -> str:
    if not isinstance(given, str) or not _is_name(given):
        raise BadField(field, given, f"a string of 1–{NAME_LENGTH} characters without NUL and unpaired surrogates")
    return given


@lru_cache  # few lanes and types, many jobs
def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= NAME_LENGTH and storable(text) == text


def check_key(field: str, given: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= KEY_LENGTH or storable(given) != given:
        raise BadField(field, given, f"a string of 1–{KEY_LENGTH} characters without NUL and unpaired surrogates")
    return given


def _key(field: str, given: str | None) -> str | None:
    return None if given is None else check_key(field, given)


def _unique_key(given: str | None) -> str | None:
    """Jobs of sources have keys of their own: another job with such a key would be taken for one of them."""
    if given is not None and str(given).startswith(SOURCE):
        raise BadField(
            "unique_key", given, f"a text that does not begin with {SOURCE}, the prefix of jobs of sources"
        )
    return _key("unique_key", given)


def _attempts(given: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= 1000:
        raise BadField("max_attempts", given, "an integer, 1–1000")
    return given


def _one_of(field: str, given: Any, allowed: Sequence[int | str]) -> Any:
    if isinstance(given, bool) or given not in allowed:
        raise BadField(field, given, f"one of {', '.join(map(str, allowed))}")
    return given


def current_traceparent() -> str | None:
    """Of the current OpenTelemetry span, if any. Without OpenTelemetry this costs one dict lookup."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


# --- times and scopes -------------------------------------------------------------------------------------


def scope_of(options: JobOptions, max_time: timedelta, now: Now) -> tuple[str | None, datetime | None]:
    """How long the unique key is held, and until when; None is the default, until the job is done.

    `max_time` is how long the table keeps a finished job: a key cannot be held for longer than its row exists.
    """
    given, on_conflict = options.get("unique"), options.get("on_conflict")
    if options.get("unique_key") is None and (given is not None or on_conflict is not None):
        field, value = ("on_conflict", on_conflict) if given is None else ("unique", given)
        raise BadField(field, value, "omitted without a unique_key")
    if given is None or given == "until done":
        return None, None
    if given == "while pending":
        return PENDING, None
    time = _unique_time(given)
    if time > max_time:
        kept = f"{max_time / timedelta(days=1):g} days"
        raise BadField("unique", given, f"at most {kept}: as long as finished jobs are kept (KEEP_DONE_DAYS)")
    return TIME, now() + time


def _unique_time(given: str | Seconds) -> timedelta:
    try:
        if not isinstance(given, str | bool):
            time = timedelta(seconds=seconds(given))
        else:
            match = re.fullmatch(r"for (.*[smhd])", str(given))
            time = parse_duration(match[1]) if match else timedelta(0)
    except (TypeError, ValueError) as error:
        raise BadField("unique", given, _SCOPES) from error
    if time <= timedelta(0):
        raise BadField("unique", given, _SCOPES)
    return time


def due_at(options: JobOptions, now: Now) -> datetime | None:
    run_at, delay = options.get("run_at"), options.get("delay")
    if delay is None:
        return utc("run_at", run_at)
    if run_at is not None:
        raise BadField("delay", delay, "omitted if run_at is passed")
    return now() + timedelta_of("delay", delay)


def expiry(options: JobOptions, due: datetime | None, now: Now) -> datetime | None:
    """Refuses a job that could never start, so that the producer can correct it."""
    expires_at, expires_in = options.get("expires_at"), options.get("expires_in")
    until = utc("expires_at", expires_at)
    if expires_in is not None:
        if until is not None:
            raise BadField("expires_in", expires_in, "omitted if expires_at is passed")
        if (time := timedelta_of("expires_in", expires_in)) <= timedelta(0):
            raise BadField("expires_in", expires_in, "more than 0 seconds")
        until = now() + time
    if until is not None and expires_in is None and until <= (asked_at := now()):
        raise BadField("expires_at", moment(until), f"later than now ({moment(asked_at)})")
    if until is not None and due is not None and until <= due:
        raise BadField("expires_at", moment(until), f"later than the job is due ({moment(due)}), or it never starts")
    return until


def utc(field: str, given: datetime | None) -> datetime | None:
    if given is None:
        return None
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise BadField(field, given, "a datetime with a time zone, e.g. datetime.now(UTC)")
    try:
        return given.astimezone(UTC)
    except OverflowError as error:
        raise BadField(field, given, "within the years 1 to 9999 in UTC") from error


def timedelta_of(field: str, given: Seconds) -> timedelta:
    try:
        return timedelta(seconds=seconds(given))
    except (TypeError, ValueError) as error:
        raise BadField(field, given, "a number of seconds or a timedelta, within a hundred years") from error
