"""What a producer says in words and spans, as the times that the table keeps. Pure: whoever calls has the clock."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from mayfly.errors import BadField
from mayfly.queue.outcome import Seconds, seconds

LIVE, PENDING, TIME = "live", "pending", "time"  # how long a unique key is held, as the table says it
KEEP, REPLACE, ERROR = "keep", "replace", "error"  # what becomes of the job that comes second
CONFLICTS = (KEEP, REPLACE, ERROR)

_WORDS = {"until done": LIVE, "while pending": PENDING}
_SPAN = r"for ([0-9]{1,9}) ?([smhd])"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SCOPES = "'until done', 'while pending', 'for 1h' (s, m, h or d), a number of seconds or a timedelta, more than 0"

Now = Callable[[], datetime]


class Scope(NamedTuple):
    """How long a unique key is held."""

    name: str
    until: datetime | None = None  # of TIME


def unique_scope(given: str | Seconds, longest: timedelta, now: Now) -> Scope:
    """`longest` is as long as the table remembers a job: a key cannot outlive its row."""
    if isinstance(given, str) and given in _WORDS:
        return Scope(_WORDS[given])
    span = _unique_span(given)
    if span > longest:
        kept = f"{longest / timedelta(days=1):g} days"
        raise BadField("unique", given, f"at most {kept}: as long as finished jobs are kept (KEEP_DONE_DAYS)")
    return Scope(TIME, now() + span)


def _unique_span(given: str | Seconds) -> timedelta:
    match = re.fullmatch(_SPAN, given) if isinstance(given, str) else None
    try:
        if isinstance(given, str | bool) and match is None:
            raise BadField("unique", given, _SCOPES)
        span = timedelta(seconds=seconds(int(match[1]) * _UNITS[match[2]] if match else given))  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise BadField("unique", given, _SCOPES) from error
    if span <= timedelta(0):
        raise BadField("unique", given, _SCOPES)
    return span


def due_at(run_at: datetime | None, delay: Seconds | None, now: Now) -> datetime | None:
    if delay is None:
        return run_at
    if run_at is not None:
        raise BadField("delay", delay, "left out where run_at is given")
    return now() + parse_duration("delay", delay)


def expiry(
    expires_at: datetime | None, expires_in: Seconds | None, run_at: datetime | None, now: Now
) -> datetime | None:
    """A job that could never start is refused: whoever made a mistake hears of it now, not tomorrow."""
    if expires_at is None and expires_in is None:
        return None
    asked_at = now()
    if expires_in is not None:
        if expires_at is not None:
            raise BadField("expires_in", expires_in, "left out where expires_at is given")
        span = parse_duration("expires_in", expires_in)
        if span <= timedelta(0):
            raise BadField("expires_in", expires_in, "more than 0 seconds")
        expires_at = asked_at + span
    until = utc("expires_at", expires_at)
    if until is not None and until <= asked_at:
        raise BadField("expires_at", _duration_text(until), f"later than now ({_duration_text(asked_at)})")
    start = utc("run_at", run_at)
    if until is not None and start is not None and until <= start:
        raise BadField(
            "expires_at",
            _duration_text(until),
            f"later than the job is due ({_duration_text(start)}), or it never starts",
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


def _duration_text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
