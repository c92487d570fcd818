"""Business hours in a time zone: weekdays, holidays, opening and closing time. Pure: times are arguments."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mayfly.errors import BadBusinessHours, NoBusinessHours

HOURS_FORMAT = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)")
MONDAY_TO_FRIDAY = "12345"  # ISO weekdays
MAX_SEARCH_DAYS = 800  # more than two years of holidays are a mistake
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class OpenHours(NamedTuple):
    """From the opening of a day until right before its closing, in UTC."""

    opens_at: datetime
    closes_at: datetime


@dataclass(frozen=True)
class BusinessHours:
    """When a business is open: `BusinessHours.parse("Europe/Berlin", "09:00-17:00", holidays=["2026-12-25"])`.

    Times are those of a clock on the wall. If a change to or from daylight-saving time skips or repeats the opening
    or closing time, the hours of that day are the shorter ones: no instant outside of them counts as open.
    """

    zone: ZoneInfo
    opens: time = time(9)
    closes: time = time(17)  # midnight is the end of the day
    weekdays: frozenset[int] = frozenset(map(int, MONDAY_TO_FRIDAY))
    holidays: frozenset[date] = frozenset()

    @classmethod
    def parse(
        cls,
        zone: str,
        hours: str = "09:00-17:00",
        weekdays: str = MONDAY_TO_FRIDAY,
        holidays: Iterable[str] = (),
    ) -> Self:
        """`weekdays` has the digits of the open days, 1 for Monday; `holidays` are dates as 2026-12-25."""
        opens, closes = _parse_hours(hours)
        return cls(parse_zone(zone), opens, closes, _parse_weekdays(weekdays), _parse_dates(holidays))

    def in_zone(self, zone: str) -> "BusinessHours":
        """The same hours on the clocks of another zone."""
        return BusinessHours(parse_zone(zone), self.opens, self.closes, self.weekdays, self.holidays)

    def hours_of(self, day: date) -> OpenHours | None:
        """None for a day that is closed."""
        if day.isoweekday() not in self.weekdays or day in self.holidays:
            return None
        last = day if self.closes != time(0) else day + DAY
        # With fold=0 and fold=1 a skipped or repeated time is two instants. The later opening and the earlier closing
        # are inside of the hours in every case.
        opens_at = max(self._instants(day, self.opens))
        closes_at = min(self._instants(last, self.closes))
        return OpenHours(opens_at, closes_at) if opens_at < closes_at else None

    def is_open(self, at: datetime) -> bool:
        hours = self.hours_of(at.astimezone(self.zone).date())
        return hours is not None and hours.opens_at <= at < hours.closes_at

    def next_open(self, at: datetime) -> datetime:
        """The first open instant from `at` on: `at` itself if it is open."""
        for hours in self._days_from(at):
            if at < hours.closes_at:
                return max(at, hours.opens_at)
        raise NoBusinessHours(str(self.zone))

    def slots(self, after: datetime, length: timedelta) -> Iterator[datetime]:
        """The starts of slots of this length that are open to their end, from `after` on.

        They are multiples of the length since 1970 in UTC, so that the slots of different zones coincide.
        """
        found_at = after
        for hours in self._days_from(after):
            starts_at = _round_up(max(after, hours.opens_at), length)
            while starts_at + length <= hours.closes_at:
                yield starts_at
                found_at = starts_at = starts_at + length
            if hours.opens_at - found_at > MAX_SEARCH_DAYS * DAY:
                raise NoBusinessHours(str(self.zone))
        raise NoBusinessHours(str(self.zone))

    def _days_from(self, at: datetime) -> Iterator[OpenHours]:
        """Ends when no day is open for a long time."""
        day, closed_days = at.astimezone(self.zone).date(), 0
        while closed_days < MAX_SEARCH_DAYS:
            hours = self.hours_of(day)
            if hours is not None:
                yield hours
            closed_days = closed_days + 1 if hours is None else 0
            day += DAY

    def _instants(self, day: date, at: time) -> list[datetime]:
        local = datetime.combine(day, at, self.zone)
        return [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]


def parse_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadBusinessHours("zone", name, "the name of a time zone, such as Europe/Berlin") from None


def _parse_hours(text: str) -> tuple[time, time]:
    found = HOURS_FORMAT.fullmatch(text)
    if found is not None:
        opens = time(int(found[1]), int(found[2]))
        closes = time(0) if found[3] is None else time(int(found[3]), int(found[4]))
        if opens < closes or found[3] is None:
            return opens, closes
    raise BadBusinessHours("hours", text, "two times of a day, such as 09:00-17:00 or 00:00-24:00")


def _parse_weekdays(text: str) -> frozenset[int]:
    if not re.fullmatch(r"[1-7]{1,7}", text):
        raise BadBusinessHours("weekdays", text, "the digits of the open days, such as 12345 for Monday to Friday")
    return frozenset(map(int, text))


def _parse_dates(texts: Iterable[str]) -> frozenset[date]:
    try:
        return frozenset(date.fromisoformat(each) for each in texts)
    except (TypeError, ValueError):
        raise BadBusinessHours("holidays", texts, "a list of dates such as 2026-12-25") from None


def _round_up(at: datetime, length: timedelta) -> datetime:
    return EPOCH + -((EPOCH - at) // length) * length
