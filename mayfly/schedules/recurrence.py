"""When a crontab rule is due in a time zone, daylight saving included. Pure: values in, values out.

cronsim knows crontab's fields and matches them against the days of a calendar. What a zone makes of the local times
is decided here:

- A rule whose minute or hour begins with `*` follows real time: it is due in every minute whose local time matches.
- Any other rule names local times. One that does not exist is due at the next minute that does; one that occurs
  twice is due the first time only; two that fall on the same minute are due once.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SAMPLE = timedelta(hours=6)  # no zone has ever changed its offset and back within so short a time
FIRST_LOOK, LOOK_FURTHER = timedelta(hours=1), 24


def due_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Every due time later than `after`, in order, in UTC."""
    minute, hour, *_ = expression.split()
    follows_real_time = minute.startswith("*") or hour.startswith("*")
    last = after
    for due in (_real_times if follows_real_time else _named_times)(expression, zone, after):
        if due > last:
            yield due
            last = due


def next_due(expression: str, zone: ZoneInfo, after: datetime, number: int = 1) -> list[datetime]:
    """The next few due times; fewer where the rule has no more."""
    return list(islice(due_times(expression, zone, after), number))


def last_due(expression: str, zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The latest due time after the one instant and not after the other, without counting all between them."""
    look_back = FIRST_LOOK
    while True:
        start = after if look_back >= until - after else until - look_back
        found = None
        for due in due_times(expression, zone, start):
            if due > until:
                break
            found = due
        if found is not None or start == after:
            return found
        look_back *= LOOK_FURTHER


def _named_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """May repeat, or begin before `after`: those who name local times do not know of offsets."""
    for local in _local_times(expression, _local(after, zone)):
        yield _instant_of(local, zone)


def _real_times(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """From one change of the offset to the next, in between of which local times are as regular as UTC."""
    at, start = after, _local(after, zone)
    while True:
        offset = _offset(at, zone)
        change: datetime | None = None
        for local in _local_times(expression, start):
            due = local.replace(tzinfo=UTC) - offset
            change = _next_change(zone, at, due)
            if change is not None:
                break
            yield due
            at = due
        if change is None:
            return
        at, start = change, _local(change, zone) - SECOND


def _local_times(expression: str, after: datetime) -> Iterator[datetime]:
    """The local times that match, as a calendar without offsets has them."""
    try:
        yield from CronSim(expression, after)
    except OverflowError:  # the calendar's end
        return


def _instant_of(local: datetime, zone: ZoneInfo) -> datetime:
    """The first time that clocks show it; where they never do, the first whole minute that they show after it."""
    first = local.replace(tzinfo=zone).astimezone(UTC)
    if _local(first, zone) == local:
        return first
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)  # in a gap, fold=1 counts from its other end
    change = _change_between(zone, before, first)
    return change + (-timedelta(seconds=_local(change, zone).second)) % MINUTE


def _next_change(zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The first instant, up to `until`, that has another offset than `after`."""
    offset = _offset(after, zone)
    while after < until:
        sample = min(after + SAMPLE, until)
        if _offset(sample, zone) != offset:
            return _change_between(zone, after, sample)
        after = sample
    return None


def _change_between(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Offsets change on whole seconds."""
    offset = _offset(before, zone)
    low = before.replace(microsecond=0)
    seconds = -((low - after) // SECOND)
    known, changed = 0, seconds
    while changed - known > 1:
        middle = (known + changed) // 2
        if _offset(low + middle * SECOND, zone) == offset:
            known = middle
        else:
            changed = middle
    return low + changed * SECOND


def _local(at: datetime, zone: ZoneInfo) -> datetime:
    """What clocks show, as a time without a zone."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta(0)
