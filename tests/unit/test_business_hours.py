"""Business hours: open instants are inside of them by the clock on the wall, on every day of every zone."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly import BusinessHours
from mayfly.errors import BadBusinessHours, NoBusinessHours

# With changes at 01:00, 02:00 and at midnight, by half an hour, in either half of the year, and without any.
ZONES = (
    "Europe/Berlin", "Europe/London", "America/New_York", "America/Havana", "America/St_Johns", "Asia/Beirut",
    "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Apia", "Africa/Casablanca", "UTC",
)  # fmt: skip
QUARTER = timedelta(minutes=15)
START = datetime(2024, 1, 1, tzinfo=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def local(hours: BusinessHours, when: datetime) -> str:
    return f"{when.astimezone(hours.zone):%Y-%m-%d %H:%M}"


@st.composite
def calendars(draw: st.DrawFn, min_half_hours: int = 1) -> BusinessHours:
    """Open for at least so long on at least one weekday."""
    opens = draw(st.integers(0, 48 - min_half_hours))
    closes = draw(st.integers(opens + min_half_hours, 48))
    texts = [f"{half // 2:02}:{half % 2 * 30:02}" for half in (opens, closes)]
    weekdays = draw(st.sets(st.sampled_from("1234567"), min_size=1))
    holidays = draw(st.lists(st.dates(date(2024, 1, 1), date(2026, 12, 31)), max_size=5))
    zone = draw(st.sampled_from(ZONES))
    return BusinessHours.parse(zone, "-".join(texts), "".join(sorted(weekdays)), map(str, holidays))


times = st.integers(0, 3 * 365 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds))


def is_inside(hours: BusinessHours, when: datetime) -> bool:
    """By the clock on the wall."""
    wall = when.astimezone(hours.zone)
    is_early = hours.closes == time(0) or wall.time() < hours.closes
    is_day = wall.isoweekday() in hours.weekdays and wall.date() not in hours.holidays
    return is_day and hours.opens <= wall.time() and is_early


@given(calendars(), times)
def test_the_next_opening_is_open_and_none_is_before_it(hours: BusinessHours, when: datetime) -> None:
    """It is `when` itself if that is open; between the two, no minute is open."""
    opening = hours.next_open(when)

    minutes = min(2000, int((opening - when) / timedelta(minutes=1)))
    assert opening >= when
    assert hours.is_open(opening)
    assert hours.next_open(opening) == opening
    assert not any(hours.is_open(opening - timedelta(minutes=each + 1)) for each in range(minutes))


@given(calendars(), times)
def test_no_open_instant_is_outside_of_the_hours_on_the_wall(hours: BusinessHours, when: datetime) -> None:
    """Also on days with a change of the clocks. On other days the reverse holds, too."""
    zone_is_steady = len({(when + timedelta(hours=each)).astimezone(hours.zone).utcoffset() for each in (-30, 0, 30)})

    assert is_inside(hours, when) or not hours.is_open(when)
    assert zone_is_steady > 1 or hours.is_open(when) == is_inside(hours, when)


# Slots are aligned in UTC: half an hour has none of 30 minutes in a zone such as Pacific/Chatham.
@given(calendars(min_half_hours=2), times, st.sampled_from([5, 15, 30]))
def test_slots_are_open_to_their_end_and_do_not_overlap(hours: BusinessHours, when: datetime, minutes: int) -> None:
    """They start at multiples of their length, the first one not before `when`."""
    length = timedelta(minutes=minutes)

    starts = list(islice(hours.slots(when, length), 40))

    assert starts[0] >= when
    assert all(later - earlier >= length for earlier, later in pairwise(starts))
    assert all(each.timestamp() % length.total_seconds() == 0 for each in starts)
    assert all(hours.is_open(each) and hours.is_open(each + length - timedelta.resolution) for each in starts)
    assert all(is_inside(hours, each + part * length / 5) for each in starts for part in range(5))


@pytest.mark.parametrize(
    ("zone", "hours", "when", "opening"),
    [
        ("Europe/Berlin", "09:00-17:00", "2026-03-27 16:30", "2026-03-30 09:00"),  # a weekend with the change
        ("Europe/Berlin", "09:00-17:00", "2026-10-23 15:30", "2026-10-26 09:00"),
        ("America/New_York", "09:00-17:00", "2026-03-06 23:00", "2026-03-09 09:00"),
        ("Europe/Berlin", "09:00-17:00", "2026-05-04 08:30", "2026-05-04 10:30"),
        ("Asia/Kolkata", "09:30-18:00", "2026-05-04 12:30", "2026-05-05 09:30"),
    ],
)
def test_hours_follow_the_clock_on_the_wall(zone: str, hours: str, when: str, opening: str) -> None:
    """Nine in the morning stays nine in the morning after a change of the clocks."""
    calendar = BusinessHours.parse(zone, hours)

    assert local(calendar, calendar.next_open(at(when))) == opening


@pytest.mark.parametrize(
    ("day", "hours", "opens", "closes"),
    [
        ("2026-03-29", "02:30-05:00", "03:30", "05:00"),  # 02:00 to 03:00 is skipped
        ("2026-03-29", "00:00-02:30", "00:00", "01:30"),
        ("2026-10-25", "02:15-05:00", "02:15", "05:00"),  # 02:00 to 03:00 happens twice: the second time
        ("2026-10-25", "00:00-02:30", "00:00", "02:30"),  # the first time
        ("2026-03-29", "00:00-24:00", "00:00", "00:00"),
    ],
)
def test_a_skipped_or_repeated_hour_shortens_the_day(day: str, hours: str, opens: str, closes: str) -> None:
    """Opening at the later instant, closing at the earlier one."""
    calendar = BusinessHours.parse("Europe/Berlin", hours, "1234567")

    found = calendar.hours_of(date.fromisoformat(day))

    assert found is not None
    assert [f"{each.astimezone(calendar.zone):%H:%M}" for each in found] == [opens, closes]


def test_an_hour_that_happens_twice_and_is_all_the_hours_is_closed() -> None:
    """Its second beginning is after its first end."""
    calendar = BusinessHours.parse("Europe/Berlin", "02:10-02:50", "1234567")

    assert calendar.hours_of(date(2026, 10, 25)) is None


def test_a_holiday_is_closed_in_each_zone_by_its_own_date() -> None:
    """It begins in Auckland, not in UTC."""
    calendar = BusinessHours.parse("Europe/Berlin", holidays=["2026-05-04"]).in_zone("Pacific/Auckland")

    assert local(calendar, calendar.next_open(at("2026-05-03 12:00"))) == "2026-05-05 09:00"


def test_slots_of_all_zones_coincide() -> None:
    """So that one limit per slot holds for contacts of any zone."""
    calendar = BusinessHours.parse("Europe/Berlin", "09:00-12:00")
    after = at("2026-05-04 04:00")

    in_kyiv, in_kolkata = (
        set(islice(calendar.in_zone(each).slots(after, QUARTER), 12)) for each in ("Europe/Kyiv", "Asia/Kolkata")
    )

    assert len(in_kyiv & in_kolkata) == 2  # Kyiv from 06:00 UTC, Kolkata until 06:30 UTC


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"zone": "Europe/Berln"}, "zone='Europe/Berln' must be the name of a time zone, such as Europe/Berlin."),
        ({"zone": ""}, "zone='' must be the name of a time zone, such as Europe/Berlin."),
        ({"hours": "17:00-09:00"}, "hours='17:00-09:00' must be two times of a day"),
        ({"hours": "9-17"}, "hours='9-17' must be two times of a day, such as 09:00-17:00 or 00:00-24:00."),
        ({"weekdays": "08"}, "weekdays='08' must be the digits of the open days"),
        ({"weekdays": ""}, "weekdays='' must be the digits of the open days"),
        ({"holidays": ["Christmas"]}, "holidays=['Christmas'] must be a list of dates such as 2026-12-25."),
    ],
)
def test_an_invalid_calendar_is_refused(arguments: dict[str, str], sentence: str) -> None:
    """The error has the value and an example."""
    with pytest.raises(BadBusinessHours) as caught:
        BusinessHours.parse(**{"zone": "UTC", **arguments})

    assert sentence in str(caught.value)


def test_hours_that_never_open_are_an_error() -> None:
    """Not an endless loop: three years of holidays, and a slot that is longer than the day."""
    start = date(2026, 1, 1)
    closed = BusinessHours.parse("UTC", holidays=[str(start + timedelta(days=each)) for each in range(1200)])
    short = BusinessHours.parse("UTC", "09:00-10:00")

    with pytest.raises(NoBusinessHours, match="The business hours in UTC never open: check weekdays and holidays"):
        closed.next_open(at("2026-01-01 00:00"))
    with pytest.raises(NoBusinessHours):
        next(closed.slots(at("2026-01-01 00:00"), QUARTER))
    with pytest.raises(NoBusinessHours):
        next(short.slots(at("2026-01-01 00:00"), timedelta(hours=2)))
