"""When the windows of a rate begin and end. Pure: now is an argument."""

from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

ALIGNED = {"second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def window_end(now: datetime, span: str, zone: str = "UTC") -> datetime:
    """When the window that `now` lies in ends, and the next one opens.

    Seconds, minutes and hours are those of UTC; days, weeks and months begin at midnight in the zone, or, where the
    clocks are put forward over midnight, at that moment.
    """
    if span in ALIGNED:
        return _EPOCH + ((now - _EPOCH) // ALIGNED[span] + 1) * ALIGNED[span]
    there = _zone(zone)
    today = now.astimezone(there).date()
    return next(
        begin
        for first in (_next_first(today, span), _next_first(_next_first(today, span), span))
        for fold in (0, 1)  # a midnight that comes twice begins its day once
        if (begin := datetime(first.year, first.month, first.day, fold=fold, tzinfo=there).astimezone(UTC)) > now
    )


def _next_first(today: date, span: str) -> date:
    """The first day of the next day, week (from Monday) or month."""
    if span == "day":
        return today + timedelta(days=1)
    if span == "week":
        return today + timedelta(days=7 - today.weekday())
    return (today.replace(day=1) + timedelta(days=32)).replace(day=1)


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
