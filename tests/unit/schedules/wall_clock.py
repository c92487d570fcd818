"""An independent implementation of due times: compare the local time of every minute with the rule."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


class Rule(NamedTuple):
    """The fields as sets, and as text."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None  # None: every day
    starred: bool  # the minute or the hour is a star
    text: str

    def matches(self, shown: datetime) -> bool:
        in_day = self.days is None or shown.day in self.days
        return shown.minute in self.minutes and shown.hour in self.hours and in_day


def due_by_wall_clock(rule: Rule, zone: ZoneInfo, after: datetime, until: datetime) -> list[datetime]:
    """Start a day and a half before `after`: a repeated local time may have occurred first before it."""
    found = []
    shown_before: set[datetime] = set()
    last: datetime | None = None
    for at in minutes_between(after - 1.5 * DAY, until):
        shown = at.astimezone(zone).replace(tzinfo=None, fold=0)
        if rule.starred:
            is_due = rule.matches(shown)
        else:
            jumped = list(minutes_between(last + MINUTE, shown - MINUTE)) if last and shown > last + MINUTE else []
            first_time = shown not in shown_before
            is_due = (rule.matches(shown) and first_time) or any(map(rule.matches, jumped))
        if is_due and at > after:
            found.append(at)
        shown_before.add(shown)
        last = shown
    return found


def minutes_between(start: datetime, end: datetime) -> Iterator[datetime]:
    """Full minutes, both ends included."""
    at = start.replace(second=0, microsecond=0)
    while at <= end:
        yield at
        at += MINUTE


def changes_of(zone: ZoneInfo, year: int) -> list[datetime]:
    """Roughly when the offset changes in a year: at most six hours late."""
    start = datetime(year, 1, 1, tzinfo=UTC)
    days = [start + number * DAY for number in range(367)]
    offsets = [at.astimezone(zone).utcoffset() for at in days]
    pairs = zip(days, offsets, offsets[1:], strict=False)
    return [_change_after(zone, day) for day, before, after in pairs if before != after]


def _change_after(zone: ZoneInfo, day: datetime) -> datetime:
    before = day.astimezone(zone).utcoffset()
    quarters = (day + number * DAY / 4 for number in range(1, 5))
    return next(at for at in quarters if at.astimezone(zone).utcoffset() != before)
