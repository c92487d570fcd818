"""mayfly.testing: while a test freezes Python's clock, the queue uses that time."""

from datetime import timedelta

import pytest
from freezegun import freeze_time

from mayfly.clock import clock_from
from mayfly.testing import pinned_offset
from tests.factories import NOON, make_clock

DAYS_AWAY = timedelta(days=400)


def test_a_database_opened_in_frozen_time_has_pythons_time() -> None:
    """A measured offset would be 400 days."""
    with freeze_time(NOON), pinned_offset():
        assert clock_from(NOON + DAYS_AWAY, NOON, NOON).now() == NOON


def test_a_database_in_use_gets_pythons_time() -> None:
    """Afterwards it has its measured offset again."""
    clock = make_clock(timedelta(hours=3))

    with freeze_time(NOON):
        with pinned_offset():
            assert (clock.now(), clock.is_skewed) == (NOON, False)
        assert (clock.now() > NOON, clock.is_skewed) == (True, True)


def test_time_can_be_moved() -> None:
    """An hour for Python is an hour for the queue."""
    clock = make_clock(DAYS_AWAY)
    with freeze_time(NOON) as frozen, pinned_offset():
        frozen.tick(3600)

        assert clock.now() == NOON + timedelta(hours=1)


def test_a_skewed_host_can_be_simulated() -> None:
    """With any offset."""
    with freeze_time(NOON), pinned_offset(timedelta(seconds=-90)):
        clock = clock_from(NOON, NOON, NOON)

        assert (clock.now(), clock.is_skewed) == (NOON - timedelta(seconds=90), True)


def test_a_database_opened_in_frozen_time_keeps_the_pinned_offset() -> None:
    """A measurement against the frozen clock would be wrong once the clock runs again."""
    with freeze_time(NOON), pinned_offset():
        clock = clock_from(NOON + DAYS_AWAY, NOON, NOON)

    assert clock.offset == timedelta(0)


def test_pins_can_be_nested() -> None:
    """The innermost applies, and each restores the previous one, also after an error."""
    clock = make_clock(timedelta(seconds=7))
    with pinned_offset(timedelta(seconds=1)):
        with pytest.raises(KeyError), pinned_offset(timedelta(seconds=2)):
            raise KeyError

        assert clock.offset == timedelta(seconds=1)
    assert clock.offset == timedelta(seconds=7)


@pinned_offset(timedelta(seconds=5))
def test_a_test_can_be_decorated() -> None:
    """The decorator has the effect of the context manager."""
    assert make_clock().offset == timedelta(seconds=5)
