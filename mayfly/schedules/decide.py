"""Decide which due times of a schedule become jobs, and which are left out and why. Pure: now is an argument."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile

from mayfly.schedules.entry import Entry
from mayfly.schedules.recurrence import due_times, last_due, next_due

ON_TIME = timedelta(seconds=90)  # a cycle a minute, one of them skipped or slow
MOST_AT_ONCE = 1000  # of one schedule in one cycle; with catch_up=all the rest follows in the next ones


@dataclass(frozen=True)
class Known:
    """What the table knows of a schedule."""

    rule: str
    dealt_until: datetime  # every due time up to here was dealt with
    last_due_at: datetime | None = None  # the last that became a job
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None

    def is_paused(self, now: datetime) -> bool:
        return self.paused_at is not None and (self.paused_until is None or now < self.paused_until)

    def open_since(self, now: datetime) -> datetime:
        """Since when due times count; those of a pause that is over do not."""
        if self.paused_until is None or self.paused_until > now:
            return self.dealt_until
        return max(self.dealt_until, self.paused_until - timedelta.resolution)


@dataclass(frozen=True)
class Decision:
    """What this cycle does about one schedule."""

    entry: Entry
    dealt_until: datetime
    due: tuple[datetime, ...] = ()  # these become jobs
    left_out: tuple[datetime, datetime] | None = None  # the first and the last of those that do not
    because: str = ""


def since(entry: Entry, now: datetime) -> datetime:
    """From when on a rule counts that was not there before: since it was written, but never for what is late."""
    return min(now, max(entry.written_at or now, now - ON_TIME))


def needs_look_at(entry: Entry, known: Known, now: datetime) -> datetime | None:
    """When there is something to decide about it: now, if that is not in the future."""
    return now if known.rule != entry.rule else _next(entry, known.open_since(now))


def decide(entry: Entry, known: Known, now: datetime) -> Decision | None:
    """None where there is nothing to do or to write down."""
    is_new = known.rule != entry.rule  # a rule that was just edited must not run for what it would have done
    after = max(known.open_since(now), since(entry, now)) if is_new else known.open_since(now)
    first = _next(entry, after)
    if first is None or first > now:
        return Decision(entry, after) if is_new else None
    last = last_due(entry.expression, entry.zone, after, now) or first
    if known.is_paused(now):
        return Decision(entry, last, left_out=(first, last), because=_paused(known))
    if entry.catch_up == "all":
        due = tuple(
            takewhile(lambda at: at <= now, islice(due_times(entry.expression, entry.zone, after), MOST_AT_ONCE))
        )
        return Decision(entry, due[-1], due)
    if entry.catch_up == "none" and now - last > ON_TIME:
        return Decision(entry, last, left_out=(first, last), because="catch_up=none")
    if first == last:
        return Decision(entry, last, (last,))
    before = last_due(entry.expression, entry.zone, first - timedelta.resolution, last - timedelta.resolution)
    return Decision(entry, last, (last,), (first, before or first), f"catch_up={entry.catch_up}")


def next_look_at(decision: Decision, now: datetime) -> datetime | None:
    """When there will be something to decide again; in the past if there is more to catch up with."""
    return _next(decision.entry, min(now, decision.dealt_until))


def jitter_of(entry: Entry, due: datetime) -> timedelta:
    """By chance, but the same for everybody who asks."""
    digest = hashlib.sha256(f"{entry.name} {due.isoformat()}".encode()).digest()
    return timedelta(seconds=entry.jitter) * (int.from_bytes(digest[:4]) / 2**32)


def _next(entry: Entry, after: datetime) -> datetime | None:
    return next(iter(next_due(entry.expression, entry.zone, after)), None)


def _paused(known: Known) -> str:
    return f"paused: {known.pause_reason}" if known.pause_reason else "paused"
