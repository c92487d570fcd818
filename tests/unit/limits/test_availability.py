"""Who is granted what: all or nothing, in order, never beyond the limit."""

from collections import Counter
from datetime import timedelta

from mayfly.limits.limit import Limit, LimitKey, LimitRequest
from mayfly.limits.windows import MAX_WAIT, Availability, RateWindow, Refusal
from tests.factories import NOON

TWO_AT_ONCE = LimitKey("smtp", Limit("smtp", 2))
TWO_A_MINUTE = LimitKey("sender", Limit("sender", 2, "minute"))
NEXT_MINUTE = NOON + timedelta(minutes=1)
MINUTE, AT_ONCE = TWO_A_MINUTE.row_key, TWO_AT_ONCE.row_key


def decide(room: Availability, *wishes: LimitRequest, in_turn: bool = False) -> list[bool]:
    return [denial is None for denial in room.decide(wishes, NOON, in_turn)]


def test_a_window_grants_as_many_as_it_has_left() -> None:
    """And counts them."""
    room = Availability({MINUTE: RateWindow(2, 1, NEXT_MINUTE)})

    assert decide(room, (TWO_A_MINUTE,), (TWO_A_MINUTE,), ()) == [True, False, True]
    assert room.windows[MINUTE].used == 2


def test_a_window_that_is_over_is_followed_by_a_new_one() -> None:
    """Empty, and the one that now lies in: how many were missed does not matter."""
    room = Availability({MINUTE: RateWindow(2, 2, NOON)})

    assert decide(room, (TWO_A_MINUTE,)) == [True]
    assert room.windows[MINUTE] == RateWindow(2, 1, NEXT_MINUTE)


def test_slots_of_others_and_ours_count_together() -> None:
    """One of theirs and one of ours are two."""
    room = Availability(others=Counter(smtp=1))

    assert decide(room, (TWO_AT_ONCE,), (TWO_AT_ONCE,)) == [True, False]
    assert room.ours == Counter(smtp=1)


def test_jobs_that_run_one_after_the_other_share_a_slot() -> None:
    """However many they are; without one none of them runs."""
    free, taken = Availability(others=Counter(smtp=1)), Availability(others=Counter(smtp=2))

    assert decide(free, *[(TWO_AT_ONCE,)] * 5, in_turn=True) == [True] * 5
    assert free.ours == Counter(smtp=1)
    assert decide(taken, *[(TWO_AT_ONCE,)] * 2, in_turn=True) == [False] * 2


def test_several_limits_are_granted_together_or_not_at_all() -> None:
    """What one of them refuses is not taken from the other, and the later one tells when to come back."""
    room = Availability({MINUTE: RateWindow(2, 2, NEXT_MINUTE)}, Counter(smtp=2))

    [denial] = room.decide([(TWO_AT_ONCE, TWO_A_MINUTE)], NOON)

    assert denial == Refusal(TWO_A_MINUTE, NEXT_MINUTE)
    assert room.ours == Counter()


def test_who_waits_for_a_window_comes_when_one_has_room() -> None:
    """The first two in the next, the fifth two later; nobody later than an hour, however many there are."""
    denial = Refusal(TWO_A_MINUTE, NEXT_MINUTE)

    turns = [denial.retry_at(NOON, position, 0.5) - NEXT_MINUTE for position in (0, 1, 2, 4, 10**6)]

    minutes = [timedelta(minutes=each) for each in (0, 0, 1, 2)]
    assert turns == [*minutes, MAX_WAIT - timedelta(minutes=1)]


def test_who_waits_for_a_day_comes_with_the_next() -> None:
    """Days ahead nobody knows the limit."""
    midnight = NOON + timedelta(hours=12)
    denial = Refusal(LimitKey("sender", Limit("sender", 2, "day")), midnight)

    assert {denial.retry_at(NOON, position, 0.5) for position in (0, 1, 2, 10**6)} == {midnight}


def test_who_waits_for_a_slot_comes_within_seconds_and_not_all_at_once() -> None:
    """A hundred at a time, and nobody later than in about ten minutes."""
    denial = Refusal(TWO_AT_ONCE)

    waits = [(denial.retry_at(NOON, position, 0.5) - NOON).total_seconds() for position in (0, 99, 100, 10**7)]

    assert waits == [1.5, 1.5, 1.6, 601.5]


def test_the_reason_fits_its_column_and_says_when() -> None:
    """With the day where it is another, the seconds where there are any, and a long key cut."""
    long = Refusal(LimitKey("k" * 190, Limit("k", 3)))
    window = Refusal(TWO_A_MINUTE, NEXT_MINUTE)

    assert window.reason(NEXT_MINUTE, NOON) == "limit sender opens at 12:01 UTC"
    assert window.reason(NOON + timedelta(seconds=1), NOON) == "limit sender opens at 12:00:01 UTC"
    assert window.reason(NOON + timedelta(days=1), NOON) == "limit sender opens at 2026-05-05 12:00 UTC"
    assert Refusal(TWO_AT_ONCE).reason(NOON, NOON) == "limit smtp: 2 of 2 in use"
    assert len(long.reason(NOON, NOON)) == 190
