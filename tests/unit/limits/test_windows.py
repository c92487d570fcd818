"""Windows end at aligned times or by the calendar of a zone, also where the zone changes its clocks."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.limits.limit import SPANS
from mayfly.limits.windows import window_end

FIRST = datetime(1990, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(0, 47 * 365 * 86_400).map(lambda each: FIRST + timedelta(seconds=each))
LONGEST = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=2),  # where the date line was moved
    "week": timedelta(days=8),
    "month": timedelta(days=32),
}


@pytest.mark.parametrize(
    ("now", "span", "zone", "end"),
    [
        ("2026-05-04 12:34:56.5", "second", "UTC", "2026-05-04 12:34:57"),
        ("2026-05-04 12:34:56.5", "minute", "UTC", "2026-05-04 12:35:00"),
        ("2026-05-04 12:34:56.5", "hour", "Asia/Kolkata", "2026-05-04 13:00:00"),
        ("2026-05-04 12:34:56.5", "day", "UTC", "2026-05-05 00:00:00"),
        ("2026-05-04 23:30:00", "day", "Europe/Berlin", "2026-05-05 22:00:00"),
        ("2026-05-04 21:30:00", "day", "Europe/Berlin", "2026-05-04 22:00:00"),
        ("2026-05-04 00:00:00", "week", "UTC", "2026-05-11 00:00:00"),
        ("2026-12-31 22:30:00", "month", "Europe/Berlin", "2026-12-31 23:00:00"),
        ("2026-01-31 12:00:00", "month", "UTC", "2026-02-01 00:00:00"),
        ("2026-03-28 23:30:00", "day", "Europe/Berlin", "2026-03-29 22:00:00"),  # a day of 23 hours
        ("2026-10-24 22:30:00", "day", "Europe/Berlin", "2026-10-25 23:00:00"),  # and one of 25
        ("2026-04-23 12:00:00", "day", "Africa/Cairo", "2026-04-23 22:00:00"),  # its next midnight does not exist
        ("2026-10-31 12:00:00", "day", "America/Havana", "2026-11-01 04:00:00"),  # and this one occurs twice
        ("2026-11-01 05:30:00", "day", "America/Havana", "2026-11-02 05:00:00"),
    ],
)
def test_a_window_ends_where_the_next_one_opens(now: str, span: str, zone: str, end: str) -> None:
    """The end is computed in the zone of the limit."""
    found = window_end(datetime.fromisoformat(f"{now}+00:00"), span, zone)

    assert found == datetime.fromisoformat(f"{end}+00:00")


@given(
    MOMENTS,
    st.sampled_from(SPANS),
    st.sampled_from(sorted(available_timezones() - {"localtime"})),
)
def test_every_window_ends_in_the_future_within_one_span(now: datetime, span: str, zone: str) -> None:
    """In every zone, windows of calendar days end at a local midnight."""
    end = window_end(now, span, zone)

    assert now < end <= now + LONGEST[span] + timedelta(hours=2)
    if span in ("day", "week", "month"):
        before, after = (each.astimezone(ZoneInfo(zone)) for each in (end - timedelta(microseconds=1), end))
        assert before.date() != after.date() or before.fold != after.fold


@given(
    MOMENTS,
    st.integers(0, 10**6),
    st.sampled_from(SPANS),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Havana", "Africa/Cairo", "Australia/Lord_Howe"]),
)
def test_later_times_never_give_an_earlier_end(now: datetime, seconds: int, span: str, zone: str) -> None:
    """A window that has ended never returns."""
    later = now + timedelta(seconds=seconds)

    assert window_end(now, span, zone) <= window_end(later, span, zone)
