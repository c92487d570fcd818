"""What a runner believes of limited keys without asking."""

from datetime import UTC, datetime, timedelta

from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.windows import Refusal
from runner.limits import ACTIVE_SECONDS, CACHE_TTL, ExhaustedKeys, SlotActivity

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SLOTS = LimitKey("smtp:7", Limit("smtp:{account}", 2))
DAILY = LimitKey("smtp:7", Limit("smtp:{account}", 2, "day"))


def test_slots_in_use_are_believed_for_a_moment_and_a_window_until_it_ends() -> None:
    """Then they are asked for again; a key that nobody closed is open."""
    keys, tomorrow = ExhaustedKeys(), NOON + timedelta(days=1)
    slots = keys.add(Refusal(SLOTS), NOON, lambda: 0.5)
    window = keys.add(Refusal(DAILY, tomorrow), NOON, lambda: 0.5)

    assert keys.find((SLOTS,), NOON) is slots
    assert keys.find((SLOTS,), NOON + CACHE_TTL) is None
    assert keys.find((DAILY,), tomorrow - CACHE_TTL) is window
    assert keys.find((DAILY,), tomorrow) is None
    assert keys.find((LimitKey("smtp:8", SLOTS.limit),), NOON) is None


def test_a_job_of_ours_that_ends_makes_slots_worth_asking_for_and_no_window() -> None:
    """Those that were put off for them still count: whoever is put off next comes after them."""
    keys = ExhaustedKeys()
    keys.add(Refusal(SLOTS), NOON, lambda: 0.5).snooze()
    keys.add(Refusal(DAILY, NOON + timedelta(days=1)), NOON, lambda: 0.5)

    keys.expire_slots((SLOTS, DAILY))

    assert keys.find((SLOTS,), NOON) is None
    assert keys.find((DAILY,), NOON) is not None
    assert keys.add(Refusal(SLOTS), NOON, lambda: 0.5).snoozed == 1


def test_a_key_activitys_while_our_jobs_move_it() -> None:
    """For half a second after the last of them began or ended, and not at all when none of ours has it."""
    activity = SlotActivity()
    activity.note(["smtp:7", "smtp:8"], now=100.0)
    activity.forget(["smtp:8"])

    assert activity.is_active("smtp:7", now=100.0 + ACTIVE_SECONDS - 0.01)
    assert not activity.is_active("smtp:7", now=100.0 + ACTIVE_SECONDS)
    assert not activity.is_active("smtp:8", now=100.0)
    assert not activity.is_active("smtp:9", now=100.0)
