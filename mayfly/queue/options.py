"""Validate what a producer passes to enqueue(): names, payload, times, unique scope. Pure: `now` is an argument."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.errors import BadField, BadPayload, KeyMissing, PayloadTooLarge
from mayfly.job import parent_id
from mayfly.limits.limit import Limit, NoKey, limit_request
from mayfly.queue.failure import storable
from mayfly.queue.insert import CONFLICTS, KEEP, LIVE, PENDING, TIME, NewJob
from mayfly.queue.outcome import Seconds, seconds
from mayfly.registry import Handler, Model
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH, NORMAL, PRIORITIES

_SCOPE_WORDS = {"until done": LIVE, "while pending": PENDING}
_SCOPE_DURATION = r"for ([0-9]{1,9}) ?([smhd])"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SCOPES = "'until done', 'while pending', 'for 1h' (s, m, h or d), a number of seconds or a timedelta, more than 0"

Now = Callable[[], datetime]


class Scope(NamedTuple):
    """How long a unique key is held."""

    name: str
    until: datetime | None = None  # of TIME


_UNTIL_DONE = Scope(LIVE)


@dataclass(frozen=True)
class JobValidator:
    """Checks every job that comes in through Python, the command line or HTTP."""

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
        expires_at: datetime | None = None,
        unique: Scope | None = None,
        on_conflict: str | None = None,
    ) -> NewJob:
        """The job as it will be inserted, or the sentence that says why not."""
        if unique_key is None and (unique is not None or on_conflict is not None):
            raise KeyMissing("on_conflict" if unique is None else "unique")
        scope = unique or _UNTIL_DONE
        if lane is None:
            lane = handler.lane if handler else "default"
        if max_attempts is None:
            max_attempts = (handler.max_attempts if handler else None) or self.max_attempts
        common = _common_fields(type_name, lane, max_attempts, NORMAL if priority is None else priority)
        return NewJob(  # by position: by name takes twice as long
            common.type,
            self._payload(type_name, payload, handler),
            common.lane,
            common.max_attempts,
            common.priority,
            None if run_at is None else utc("run_at", run_at),
            None if unique_key is None else _key("unique_key", unique_key),
            None if group_key is None else _key("group_key", group_key),
            expires_at,
            scope.name if scope.name != LIVE else None,
            scope.until,
            current_traceparent(),
            parent_id(),
            None if on_conflict is None else _conflict(on_conflict),
        )

    def _payload(self, type_name: str, payload: object, handler: Handler | None) -> str:
        if type(payload) is not dict:  # nearly all are one; isinstance with Mapping takes longer
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
            _check_model(type_name, handler.model, text)
        if handler is not None and handler.limits:
            _check_limit_keys(type_name, handler.limits, text)
        return text


class _CommonFields(NamedTuple):
    """The same for many jobs, so that the check is cached."""

    type: str
    lane: str
    max_attempts: int
    priority: int


def _common_fields(type_name: str, lane: str, max_attempts: int, priority: int) -> _CommonFields:
    try:
        return _cached_fields(type_name, lane, max_attempts, priority)
    except TypeError:  # a value that cannot be hashed: the check says which
        return _checked_fields(type_name, lane, max_attempts, priority)


def _checked_fields(type_name: str, lane: str, max_attempts: int, priority: int) -> _CommonFields:
    return _CommonFields(
        _name("type", type_name),
        _name("lane", lane),
        _attempts("max_attempts", max_attempts),
        _one_of("priority", priority, PRIORITIES),
    )


_cached_fields = lru_cache(typed=True)(_checked_fields)  # typed, because True is not 1 here


def _name(field: str, given: str) -> str:
    if not isinstance(given, str) or not _is_name(given):
        raise BadField(field, given, f"a text of 1 to {NAME_LENGTH} characters that every database can hold")
    return given


def _is_name(text: str) -> bool:
    return bool(text.strip()) and len(text) <= NAME_LENGTH and storable(text) == text


def _key(field: str, given: str) -> str:
    if not isinstance(given, str) or not 1 <= len(given) <= KEY_LENGTH or storable(given) != given:
        raise BadField(field, given, f"a text of 1 to {KEY_LENGTH} characters that every database can hold")
    return given


def _attempts(field: str, given: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= 1000:
        raise BadField(field, given, "an integer, 1–1000")
    return given


def _one_of(field: str, given: int, allowed: tuple[int, ...]) -> int:
    if isinstance(given, bool) or given not in allowed:
        raise BadField(field, given, f"one of {', '.join(map(str, allowed))}")
    return given


def _conflict(given: str) -> str | None:
    if given == KEEP:
        return None
    if not isinstance(given, str) or given not in CONFLICTS:
        raise BadField("on_conflict", given, f"one of {', '.join(CONFLICTS)}")
    return given


def _check_model(type_name: str, model: Model, text: str) -> None:
    try:
        model.model_validate(json_text.decode(text))
    except ValueError as error:
        raise BadPayload(type_name, describe_payload_errors(error), payload_errors(error)) from error


def _check_limit_keys(type_name: str, limits: Sequence[Limit], text: str) -> None:
    """A job whose limits cannot be computed from its payload would be dead before it starts."""
    try:
        limit_request(limits, json_text.decode(text))
    except NoKey as error:
        raise BadPayload(type_name, str(error)) from error


def describe_payload_errors(error: ValueError) -> str:
    """pydantic's errors as one line: the field and what is wrong with it. Never the value: it may be a secret."""
    found = _error_items(error)
    if found is None:
        return str(error)
    return "; ".join(f"{_path(each) or 'payload'}: {each['msg']}" for each in found)


def payload_errors(error: ValueError) -> list[str]:
    """The fields that do not fit, as paths."""
    return [path for each in _error_items(error) or () if (path := _path(each))]


def _error_items(error: ValueError) -> Any:
    errors = getattr(error, "errors", None)
    return None if errors is None else errors(include_url=False, include_input=False, include_context=False)


def _path(item: Mapping[str, Any]) -> str:
    return ".".join(map(str, item["loc"]))


def current_traceparent() -> str | None:
    """Of the open OpenTelemetry span, if the application uses it; if not, this is one dict lookup."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


# --- times and scopes -------------------------------------------------------------------------------------


def unique_scope(given: str | Seconds, longest: timedelta, now: Now) -> Scope:
    """`longest` is how long finished jobs are kept: a key cannot outlive its row."""
    if isinstance(given, str) and given in _SCOPE_WORDS:
        return Scope(_SCOPE_WORDS[given])
    duration = _scope_duration(given)
    if duration > longest:
        kept = f"{longest / timedelta(days=1):g} days"
        raise BadField("unique", given, f"at most {kept}: as long as finished jobs are kept (KEEP_DONE_DAYS)")
    return Scope(TIME, now() + duration)


def _scope_duration(given: str | Seconds) -> timedelta:
    match = re.fullmatch(_SCOPE_DURATION, given) if isinstance(given, str) else None
    try:
        if isinstance(given, str | bool) and match is None:
            raise BadField("unique", given, _SCOPES)
        duration = timedelta(seconds=seconds(int(match[1]) * _UNITS[match[2]] if match else given))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise BadField("unique", given, _SCOPES) from error
    if duration <= timedelta(0):
        raise BadField("unique", given, _SCOPES)
    return duration


def due_at(run_at: datetime | None, delay: Seconds | None, now: Now) -> datetime | None:
    if delay is None:
        return run_at
    if run_at is not None:
        raise BadField("delay", delay, "omitted if run_at is passed")
    return now() + parse_duration("delay", delay)


def expiry(
    expires_at: datetime | None, expires_in: Seconds | None, run_at: datetime | None, now: Now
) -> datetime | None:
    """A job that could never start is refused at once, so that the mistake is noticed."""
    if expires_at is None and expires_in is None:
        return None
    current = now()
    if expires_in is not None:
        if expires_at is not None:
            raise BadField("expires_in", expires_in, "omitted if expires_at is passed")
        duration = parse_duration("expires_in", expires_in)
        if duration <= timedelta(0):
            raise BadField("expires_in", expires_in, "more than 0 seconds")
        expires_at = current + duration
    until = utc("expires_at", expires_at)
    if until is not None and until <= current:
        raise BadField("expires_at", _time_text(until), f"later than now ({_time_text(current)})")
    start = utc("run_at", run_at)
    if until is not None and start is not None and until <= start:
        raise BadField(
            "expires_at",
            _time_text(until),
            f"later than the job is due ({_time_text(start)}), or it never starts",
        )
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


def parse_duration(field: str, given: Seconds) -> timedelta:
    try:
        return timedelta(seconds=seconds(given))
    except (TypeError, ValueError) as error:
        raise BadField(field, given, "a number of seconds or a timedelta, within a hundred years") from error


def _time_text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
