"""The database's time rules, and freezing Python's clock does not stop a guard."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from mayfly.clock import COARSEST_RESOLUTION, Clock, clock_from, host_now, milliseconds, monotonic, since_boot
from tests.factories import NOON, make_clock

spans = st.timedeltas(timedelta(days=-365), timedelta(days=365))
round_trips = st.timedeltas(timedelta(0), timedelta(seconds=10))


@pytest.mark.parametrize(
    ("asked", "answered", "database", "offset"),
    [(0, 0, 0, 0), (0, 2, 1, 0), (0, 2, 11, 10), (0, 2, -9, -10), (0, 10, 10.25, 5.25)],
)
def test_an_answer_is_dated_to_the_middle_of_the_round_trip(
    asked: float, answered: float, database: float, offset: float
) -> None:
    """A slow connection does not look like a wrong clock."""
    at, until, database_at = (NOON + timedelta(seconds=each) for each in (asked, answered, database))

    assert clock_from(database_at, at, until).offset == timedelta(seconds=offset)


@given(round_trips, st.floats(0, 1), st.timedeltas(timedelta(0), timedelta(microseconds=999)))
def test_a_clock_has_no_offset_to_itself(trip: timedelta, share: float, cut_off: timedelta) -> None:
    """With any round trip, any time of the reading, and any precision of the database."""
    assert clock_from(NOON + trip * share - cut_off, NOON, NOON + trip).offset == timedelta(0)


@given(spans, round_trips, st.floats(0, 1))
def test_the_error_is_at_most_half_a_round_trip(offset: timedelta, trip: timedelta, share: float) -> None:
    """Whenever the database read its clock; at most a full round trip if it may be the same clock."""
    database_now = NOON + offset + trip * share
    measured = clock_from(database_now, NOON, NOON + trip).offset

    most = trip / 2 if measured else trip + COARSEST_RESOLUTION
    assert abs(measured - offset) <= most + timedelta(microseconds=1)


def test_now_is_the_time_of_the_database() -> None:
    """Its time at the measurement plus the time that has passed since."""
    clock = Clock(NOON, since_boot() - 90)

    assert NOON + timedelta(seconds=90) <= clock.now() < NOON + timedelta(seconds=900)


@pytest.mark.parametrize("step", [timedelta(minutes=10), timedelta(minutes=-10), timedelta(days=30)])
def test_setting_the_wall_clock_changes_nothing(step: timedelta) -> None:
    """Jobs, retries and leases are unaffected; the step can be logged."""
    clock = make_clock(timedelta(hours=3))
    before = clock.now()

    with freeze_time(host_now() + step, tick=True):
        after, seen = clock.now(), clock.wall_clock_step()

    assert before <= after < before + timedelta(minutes=1)
    assert abs(seen - step) < timedelta(minutes=1)


def test_a_drift_is_not_a_step() -> None:
    """A second or less is not logged."""
    clock = make_clock()

    with freeze_time(host_now() + timedelta(seconds=0.5), tick=True):
        assert clock.wall_clock_step() == timedelta(0)


@pytest.mark.parametrize(("seconds", "skewed"), [(0, False), (1, False), (-1, False), (1.001, True), (-3600, True)])
def test_an_offset_of_a_second_is_reported(seconds: float, skewed: bool) -> None:
    """In both directions."""
    assert make_clock(timedelta(seconds=seconds)).is_skewed is skewed


def test_the_time_of_the_host_has_a_zone() -> None:
    """It is UTC."""
    assert host_now().tzinfo is UTC


def test_freezing_time_does_not_stop_a_guard() -> None:
    """freezegun moves Python's clock only: deadlines use the kernel's."""
    with freeze_time(NOON):
        before, frozen = monotonic(), host_now()
        while monotonic() == before:
            continue

    assert frozen == NOON
    assert 0 < monotonic() - before < 60


def test_monotonic_seconds_are_the_same_in_other_processes() -> None:
    """Deadlines are passed to runners, also to those in another interpreter."""
    before = time.clock_gettime(time.CLOCK_MONOTONIC)

    assert before <= monotonic() <= time.clock_gettime(time.CLOCK_MONOTONIC)


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2025, 2, 1, 18, 40, 0, 123_999, tzinfo=UTC), 1_738_435_200_123),
    ],
)
def test_milliseconds_are_counted_since_the_epoch(at: datetime, number: int) -> None:
    """Cycles and runners are named after them; fractions are truncated."""
    assert milliseconds(at) == number


@given(st.integers(0, 10**14))
def test_milliseconds_are_exact(number: int) -> None:
    """For some thousand years."""
    assert milliseconds(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)) == number
