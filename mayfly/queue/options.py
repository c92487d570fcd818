"""Validate what a producer passes to enqueue(): options, payload, times, unique scope. Pure: `now` is a function."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, Unpack

from mayfly import json_text
from mayfly.errors import BadField, BadPayload, PayloadTooLarge
from mayfly.format import moment, parse_duration
from mayfly.job import Batch, parent_id
from mayfly.limits.limit import Limit, NoKey, limit_request
from mayfly.queue.failure import storable
from mayfly.queue.insert import CONFLICTS, KEEP, LIVE, PENDING, TIME, NewJob
from mayfly.queue.outcome import Seconds, seconds
from mayfly.registry import Handler, Model
from mayfly.schema.tables import KEY_LENGTH, NAME_LENGTH, NORMAL, PRIORITIES

if TYPE_CHECKING:
    from mayfly.settings import Settings

_WORDS = {"until done": LIVE, "while pending": PENDING}
_SCOPES = "'until done', 'while pending', 'for 1h' (s, m, h or d), a number of seconds or a timedelta, more than 0"

Now = Callable[[], datetime]


class StepOptions(TypedDict, total=False):
    """What a step of a chain and the callback of a batch may have. In each of these, None is the default."""

    lane: str | None  # where it waits: the lane of its handler, or `default`
    priority: int | None  # 0 high, 1 normal, 2 low
    max_attempts: int | None  # the handler's, or MAX_ATTEMPTS
    delay: Seconds | None  # due after this time


class JobOptions(StepOptions, total=False):
    """What a job may have, however it is enqueued: Python, the CLI or HTTP."""

    run_at: datetime | None  # due at this time; instead of `delay`
    unique_key: str | None  # only one job holds this key
    unique: str | Seconds | None  # how long it is held: "until done", "while pending", "for 1h", or seconds
    on_conflict: str | None  # if it is held: "keep" the holder, "replace" it while it is pending, or "error"
    group_key: str | None  # a name for related jobs
    expires_at: datetime | None  # cancelled if it has not started by then
    expires_in: Seconds | None  # the same, counted from now


class EnqueueOptions(JobOptions, total=False):
    """The keyword arguments of enqueue(), besides `connection`."""

    batch: Batch | None  # the batch that the job joins: the one whose block it is enqueued in


JOB_OPTIONS = frozenset(JobOptions.__annotations__)
ENQUEUE_OPTIONS = frozenset(EnqueueOptions.__annotations__)


class Scope(NamedTuple):
    """How long a unique key is held."""

    name: str
    until: datetime | None = None  # of TIME


_UNTIL_DONE = Scope(LIVE)


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
        return _terms(type_name, lane, max_attempts, NORMAL if priority is None else priority)

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
        raise BadField(field, given, "an integer, 1–1000")
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


def current_traceparent() -> str | None:
    """Where the application has OpenTelemetry and a span is open. Where it has not, this is one look into a dict."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


# --- times and scopes -------------------------------------------------------------------------------------


def unique_scope(options: JobOptions, max_time: timedelta, now: Now) -> Scope:
    """`max_time` is how long the table keeps a finished job: a key cannot be held for longer than its row exists."""
    given = options.get("unique")
    if options.get("unique_key") is None and (given is not None or options.get("on_conflict") is not None):
        field, value = ("on_conflict", options.get("on_conflict")) if given is None else ("unique", given)
        raise BadField(field, value, "left out without a unique_key")
    if given is None:
        return _UNTIL_DONE
    if isinstance(given, str) and given in _WORDS:
        return Scope(_WORDS[given])
    time = _unique_time(given)
    if time > max_time:
        kept = f"{max_time / timedelta(days=1):g} days"
        raise BadField("unique", given, f"at most {kept}: as long as finished jobs are kept (KEEP_DONE_DAYS)")
    return Scope(TIME, now() + time)


def _unique_time(given: str | Seconds) -> timedelta:
    try:
        time = _parse_for(given) if isinstance(given, str | bool) else timedelta(seconds=seconds(given))
    except (TypeError, ValueError) as error:
        raise BadField("unique", given, _SCOPES) from error
    if time <= timedelta(0):
        raise BadField("unique", given, _SCOPES)
    return time


def _parse_for(given: str | bool) -> timedelta:
    """From "for 1h"."""
    if not isinstance(given, str) or not given.startswith("for ") or given[-1] not in "smhd":
        raise ValueError
    return parse_duration(given.removeprefix("for "))


def due_at(options: JobOptions, now: Now) -> datetime | None:
    run_at, delay = options.get("run_at"), options.get("delay")
    if delay is None:
        return utc("run_at", run_at)
    if run_at is not None:
        raise BadField("delay", delay, "omitted if run_at is passed")
    return now() + timedelta_of("delay", delay)


def expiry(options: JobOptions, due: datetime | None, now: Now) -> datetime | None:
    """A job that could never start is refused here, where the producer can correct it."""
    expires_at, expires_in = options.get("expires_at"), options.get("expires_in")
    if expires_at is None and expires_in is None:
        return None
    asked_at = now()
    if expires_in is not None:
        if expires_at is not None:
            raise BadField("expires_in", expires_in, "omitted if expires_at is passed")
        time = timedelta_of("expires_in", expires_in)
        if time <= timedelta(0):
            raise BadField("expires_in", expires_in, "more than 0 seconds")
        expires_at = asked_at + time
    until = utc("expires_at", expires_at)
    assert until is not None
    if until <= asked_at:
        raise BadField("expires_at", moment(until), f"later than now ({moment(asked_at)})")
    if due is not None and until <= due:
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
