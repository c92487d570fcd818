"""Slots and warm-up: pure functions."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.campaigns.senders import Sender, in_order
from handlers.campaigns.slots import SlotBoard, SlotSender, jitter, local_date
from handlers.campaigns.warmup import WarmupState, next_state
from mayfly import BusinessHours

NOW = datetime(2026, 5, 4, 8, 0, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Auckland")


@given(
    st.lists(st.tuples(st.sampled_from(ZONES), st.integers(1, 8)), min_size=1, max_size=4),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from((None, *ZONES)), st.integers(0, 40)), max_size=60),
)
def test_no_slot_and_no_day_of_a_sender_has_too_many_messages(
    senders: list[tuple[str, int]], per_slot: int, contacts: list[tuple[str | None, int]]
) -> None:
    """And each message is in the business hours of its contact, not before its time."""
    hours = BusinessHours.parse("Europe/Berlin")
    given_senders = [SlotSender(number, ZoneInfo(zone), limit) for number, (zone, limit) in enumerate(senders)]
    board = SlotBoard(hours, QUARTER, per_slot, given_senders, NOW)

    found = [
        (zone, NOW + timedelta(hours=after), board.assign(zone, NOW + timedelta(hours=after), str(number)))
        for number, (zone, after) in enumerate(contacts)
    ]

    by_slot = Counter((each.sender_id, each.slot_at) for _, _, each in found)
    zones = {each.id: each.zone for each in given_senders}
    by_day = Counter((each.sender_id, local_date(each.slot_at, zones[each.sender_id])) for _, _, each in found)
    assert all(number <= per_slot for number in by_slot.values())
    assert all(number <= given_senders[sender_id].limit for (sender_id, _), number in by_day.items())
    for zone, earliest, each in found:
        assert earliest <= each.slot_at <= each.at < each.slot_at + QUARTER
        assert (hours.in_zone(zone) if zone else hours).is_open(each.at)


def test_messages_of_other_campaigns_use_up_slots() -> None:
    board = SlotBoard(BusinessHours.parse("UTC", "08:00-20:00"), QUARTER, 1, [SlotSender(1, ZoneInfo("UTC"), 3)], NOW)
    board.occupy({(1, NOW): 1, (1, NOW + QUARTER): 1})

    slots = [board.assign(None, NOW, str(number)).slot_at for number in range(2)]

    assert slots == [NOW + 2 * QUARTER, NOW + timedelta(days=1)]  # the fourth message of the day is tomorrow's


def test_a_sender_in_a_cooldown_gets_no_messages_before_its_end() -> None:
    sender = SlotSender(1, ZoneInfo("UTC"), 9, NOW + timedelta(hours=3))
    board = SlotBoard(BusinessHours.parse("UTC", "08:00-20:00"), QUARTER, 5, [sender], NOW)

    assert board.assign(None, NOW, "x").slot_at == NOW + timedelta(hours=3)


@given(st.text())
def test_the_same_key_has_the_same_jitter(key: str) -> None:
    assert 0 <= jitter(key) < 1
    assert jitter(key) == jitter(key)


# --- senders ----------------------------------------------------------------------------------------------


def sender(number: int, sends: int = 0, **fields: Any) -> Sender:
    usual = {"tenant_id": "default", "provider": "smtp", "address": "a@b", "credential": "SENDER_X",
             "zone": ZoneInfo("UTC"), "limit": 10, "health": 100, "cooldown_until": None}  # fmt: skip
    return Sender(id=number, name=f"s{number}", sends=sends, **{**usual, **fields})


def test_the_planned_sender_is_first_then_the_one_with_the_most_quota() -> None:
    """Unhealthy ones are last; exhausted ones and those in a cooldown are not tried."""
    given_senders = [
        sender(1, sends=9), sender(2), sender(3, sends=10), sender(4, health=10, limit=99),
        sender(5, cooldown_until=NOW + QUARTER), sender(6, sends=5),
    ]  # fmt: skip

    assert [each.id for each in in_order(given_senders, 6, NOW)] == [6, 2, 1, 4]


# --- warm-up ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "bounces", "complaints", "expected"),
    [
        (0, 0, 0, WarmupState(1, 20, 95)),
        (2, 0, 0, WarmupState(3, 500, 95)),  # after the curve
        (3, 0, 0, WarmupState(3, 500, 95)),
        (2, 1, 0, WarmupState(3, 500, 95)),  # below 5 % of 40
        (2, 3, 0, WarmupState(1, 20, 70)),
        (2, 0, 1, WarmupState(1, 20, 70)),
        (3, 0, 1, WarmupState(1, 20, 70)),
        (0, 0, 1, WarmupState(0, 10, 70)),
    ],
)
def test_the_limit_follows_the_curve_and_goes_back_after_problems(
    day: int, bounces: int, complaints: int, expected: WarmupState
) -> None:
    curve = [10, 20, 40]

    after = next_state(WarmupState(day, 40, 90), curve, 500, bounces, complaints)

    assert after == expected


@given(st.lists(st.integers(0, 100), max_size=5), st.integers(1, 100), st.lists(st.integers(0, 5), max_size=20))
def test_no_limit_is_above_the_daily_limit(curve: list[int], daily_limit: int, bounces: list[int]) -> None:
    """However the days go."""
    state = WarmupState(0, 0, 100)
    for each in bounces:
        state = next_state(state, curve, daily_limit, each, 0)

        assert 0 <= state.limit <= daily_limit
        assert 0 <= state.health <= 100
