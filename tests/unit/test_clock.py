"""Time: the database's rules, and a guard's clock cannot be stopped."""

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
def test_an_answer_was_true_half_way_through_the_round_trip(
    asked: float, answered: float, database: float, offset: float
) -> None:
    """A slow line does not make a clock look wrong."""
    at, until, told = (NOON + timedelta(seconds=each) for each in (asked, answered, database))

    assert clock_from(told, at, until).offset == timedelta(seconds=offset)


@given(round_trips, st.floats(0, 1), st.timedeltas(timedelta(0), timedelta(microseconds=999)))
def test_one_clock_has_no_distance_to_itself(trip: timedelta, share: float, cut_off: timedelta) -> None:
    """However busy the machine is, whenever the database looked, and whatever digits it cut off."""
    assert clock_from(NOON + trip * share - cut_off, NOON, NOON + trip).offset == timedelta(0)


@given(spans, round_trips, st.floats(0, 1))
def test_the_error_is_half_a_round_trip_at_most(offset: timedelta, trip: timedelta, share: float) -> None:
    """Whenever within the round trip the database looked at its clock; a whole one if it may be the same clock."""
    database_now = NOON + offset + trip * share
    measured = clock_from(database_now, NOON, NOON + trip).offset

    most = trip / 2 if measured else trip + COARSEST_RESOLUTION
    assert abs(measured - offset) <= most + timedelta(microseconds=1)


def test_now_is_the_databases_time() -> None:
    """Its time at the measurement, and what has passed since then."""
    clock = Clock(NOON, since_boot() - 90)

    assert NOON + timedelta(seconds=90) <= clock.now() < NOON + timedelta(seconds=900)


@pytest.mark.parametrize("step", [timedelta(minutes=10), timedelta(minutes=-10), timedelta(days=30)])
def test_a_wall_clock_that_is_set_moves_nothing(step: timedelta) -> None:
    """Jobs, retries and leases go on as if nothing had happened; the step itself can be logged."""
    clock = make_clock(timedelta(hours=3))
    before = clock.now()

    with freeze_time(host_now() + step, tick=True):
        after, seen = clock.now(), clock.wall_clock_step()

    assert before <= after < before + timedelta(minutes=1)
    assert abs(seen - step) < timedelta(minutes=1)


def test_a_clock_that_drifts_is_no_step() -> None:
    """A second or less is not worth a line."""
    clock = make_clock()

    with freeze_time(host_now() + timedelta(seconds=0.5), tick=True):
        assert clock.wall_clock_step() == timedelta(0)


@pytest.mark.parametrize(("seconds", "skewed"), [(0, False), (1, False), (-1, False), (1.001, True), (-3600, True)])
def test_a_second_off_is_worth_telling(seconds: float, skewed: bool) -> None:
    """Either way."""
    assert make_clock(timedelta(seconds=seconds)).is_skewed is skewed


def test_the_hosts_time_is_aware() -> None:
    """UTC, and nothing else, from the start."""
    assert host_now().tzinfo is UTC


def test_freezing_time_does_not_stop_a_guard() -> None:
    """freezegun moves Python's clock only: deadlines count on what the kernel says."""
    with freeze_time(NOON):
        before, frozen = monotonic(), host_now()
        while monotonic() == before:
            continue

    assert frozen == NOON
    assert 0 < monotonic() - before < 60


def test_monotonic_seconds_are_those_of_other_processes() -> None:
    """A deadline is handed to a runner, also to one in an interpreter of its own."""
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
    """Cycles and runners are named after them; what is begun is not counted."""
    assert milliseconds(at) == number


@given(st.integers(0, 10**14))
def test_milliseconds_are_exact(number: int) -> None:
    """For a few thousand years."""
    assert milliseconds(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)) == number
