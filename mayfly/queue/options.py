"""The options of a new job: what a producer may pass, and the times that the table stores for it. Pure."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypedDict

from mayfly.errors import BadField
from mayfly.format import moment, parse_duration
from mayfly.job import Batch
from mayfly.queue.outcome import Seconds, seconds

LIVE, PENDING, TIME = "live", "pending", "time"  # how long a unique key is held, as stored in unique_scope
KEEP, REPLACE, ERROR = "keep", "replace", "error"  # on_conflict: what happens if the unique key is held
CONFLICTS = (KEEP, REPLACE, ERROR)

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
        raise BadField("delay", delay, "left out where run_at is given")
    return now() + timedelta_of("delay", delay)


def expiry(options: JobOptions, due: datetime | None, now: Now) -> datetime | None:
    """A job that could never start is refused here, where the producer can correct it."""
    expires_at, expires_in = options.get("expires_at"), options.get("expires_in")
    if expires_at is None and expires_in is None:
        return None
    asked_at = now()
    if expires_in is not None:
        if expires_at is not None:
            raise BadField("expires_in", expires_in, "left out where expires_at is given")
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
