"""Limits are granted all or nothing, in order, and never beyond the limit."""

from collections import Counter
from datetime import timedelta

import pytest

from mayfly.limits.limit import Limit, LimitKey, LimitRequest
from mayfly.limits.windows import MAX_WAIT, Availability, RateWindow, Refusal
from tests.factories import NOON

TWO_AT_ONCE = LimitKey("smtp", Limit("smtp", 2))
TWO_A_MINUTE = LimitKey("sender", Limit("sender", 2, "minute"))
NEXT_MINUTE = NOON + timedelta(minutes=1)
MINUTE, AT_ONCE = TWO_A_MINUTE.row_key, TWO_AT_ONCE.row_key


def decide(room: Availability, *requests: LimitRequest, in_turn: bool = False) -> list[bool]:
    return [refusal is None for refusal in room.decide(requests, NOON, in_turn)]


def test_a_window_grants_as_many_jobs_as_it_has_left() -> None:
    """Each granted job is counted in the window."""
    room = Availability({MINUTE: RateWindow(2, 1, NEXT_MINUTE)})

    assert decide(room, (TWO_A_MINUTE,), (TWO_A_MINUTE,), ()) == [True, False, True]
    assert room.windows[MINUTE].used == 2


def test_an_expired_window_is_replaced_by_an_empty_one() -> None:
    """The new window contains the current time, however many windows were missed."""
    room = Availability({MINUTE: RateWindow(2, 2, NOON)})

    assert decide(room, (TWO_A_MINUTE,)) == [True]
    assert room.windows[MINUTE] == RateWindow(2, 1, NEXT_MINUTE)


def test_slots_of_this_runner_and_of_others_count_together() -> None:
    """One slot of another runner and one of this runner use up a limit of two."""
    room = Availability(others=Counter(smtp=1))

    assert decide(room, (TWO_AT_ONCE,), (TWO_AT_ONCE,)) == [True, False]
    assert room.ours == Counter(smtp=1)


def test_jobs_that_run_one_after_the_other_share_a_slot() -> None:
    """One free slot admits any number of them; without a free slot none is admitted."""
    free, taken = Availability(others=Counter(smtp=1)), Availability(others=Counter(smtp=2))

    assert decide(free, *[(TWO_AT_ONCE,)] * 5, in_turn=True) == [True] * 5
    assert free.ours == Counter(smtp=1)
    assert decide(taken, *[(TWO_AT_ONCE,)] * 2, in_turn=True) == [False] * 2


def test_jobs_that_run_at_the_same_time_take_a_slot_each() -> None:
    """So do those of two calls."""
    room = Availability()

    assert decide(room, (TWO_AT_ONCE,)) + decide(room, (TWO_AT_ONCE,)) == [True, True]
    assert room.ours == Counter(smtp=2)


def test_an_exhausted_slot_names_its_limit() -> None:
    """For the reason that is stored with the job."""
    room = Availability(others=Counter(smtp=2))

    assert room.decide([(TWO_AT_ONCE,)], NOON) == [Refusal(TWO_AT_ONCE)]


def test_the_first_window_ends_in_the_zone_of_the_limit() -> None:
    """At noon in UTC it is evening in Tokyo: its day ends three hours later."""
    daily = LimitKey("sender", Limit("sender", 2, "day", "Asia/Tokyo"))
    room = Availability()

    assert decide(room, (daily,)) == [True]
    assert room.windows[daily.row_key] == RateWindow(2, 1, NOON + timedelta(hours=3))


def test_several_limits_are_granted_together_or_not_at_all() -> None:
    """A refused job takes nothing from its other limits and is retried at the latest of their times."""
    room = Availability({MINUTE: RateWindow(2, 2, NEXT_MINUTE)}, Counter(smtp=2))

    [refusal] = room.decide([(TWO_AT_ONCE, TWO_A_MINUTE)], NOON)

    assert refusal == Refusal(TWO_A_MINUTE, NEXT_MINUTE)
    assert room.ours == Counter()


def test_a_job_over_a_rate_limit_is_snoozed_until_a_window_with_room() -> None:
    """The first two get the next window and the fifth gets the third; no job waits longer than an hour."""
    refusal = Refusal(TWO_A_MINUTE, NEXT_MINUTE)

    waits = [refusal.retry_at(NOON, position, 0.5) - NEXT_MINUTE for position in (0, 1, 2, 4, 10**6)]

    minutes = [timedelta(minutes=each) for each in (0, 0, 1, 2)]
    assert waits == [*minutes, MAX_WAIT - timedelta(minutes=1)]


def test_a_job_over_a_daily_limit_is_snoozed_until_the_next_day() -> None:
    """Jobs are not spread over later days, since the limit may have changed by then."""
    midnight = NOON + timedelta(hours=12)
    refusal = Refusal(LimitKey("sender", Limit("sender", 2, "day")), midnight)

    assert {refusal.retry_at(NOON, position, 0.5) for position in (0, 1, 2, 10**6)} == {midnight}


def test_jobs_waiting_for_a_slot_return_within_seconds_and_spread_out() -> None:
    """A hundred jobs return at a time, and no job waits longer than about ten minutes."""
    refusal = Refusal(TWO_AT_ONCE)

    waits = [(refusal.retry_at(NOON, position, 0.5) - NOON).total_seconds() for position in (0, 99, 100, 10**7)]

    assert waits == [1.5, 1.5, 1.6, 601.5]


def test_the_reason_fits_its_column_and_names_the_time() -> None:
    """The day is added if it is another day, the seconds if they are not zero; a long key is truncated."""
    long = Refusal(LimitKey("k" * 190, Limit("k", 3)))
    window = Refusal(TWO_A_MINUTE, NEXT_MINUTE)

    assert window.reason(NEXT_MINUTE, NOON) == "limit sender opens at 12:01 UTC"
    assert window.reason(NOON + timedelta(seconds=1), NOON) == "limit sender opens at 12:00:01 UTC"
    assert window.reason(NOON + timedelta(days=1), NOON) == "limit sender opens at 2026-05-05 12:00 UTC"
    assert Refusal(TWO_AT_ONCE).reason(NOON, NOON) == "limit smtp: 2 of 2 in use"
    assert len(long.reason(NOON, NOON)) == 190


@pytest.mark.parametrize("most", [0, 1])
def test_each_window_gets_one_job_of_a_limit_of_one(most: int) -> None:
    """Also of a limit of 0, which may be raised until then."""
    refusal = Refusal(LimitKey("sender", Limit("sender", most, "minute")), NEXT_MINUTE)

    retries = [refusal.retry_at(NOON, position, 0.5) for position in (0, 1, 2)]

    assert retries == [NEXT_MINUTE + timedelta(minutes=minutes) for minutes in (0, 1, 2)]
