"""What a runner remembers about exhausted limits, without a query."""

from datetime import UTC, datetime, timedelta

from mayfly.limits.limit import Limit, LimitKey
from mayfly.limits.windows import Refusal
from runner.limits import ACTIVE_SECONDS, CACHE_TTL, ExhaustedKeys

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SLOTS = LimitKey("smtp:7", Limit("smtp:{account}", 2))
DAILY = LimitKey("smtp:7", Limit("smtp:{account}", 2, "day"))


def test_used_slots_are_remembered_for_a_moment_and_a_window_until_it_ends() -> None:
    """Then the database is queried again; an unknown key counts as free."""
    keys, tomorrow = ExhaustedKeys(), NOON + timedelta(days=1)
    slots = keys.add(Refusal(SLOTS), NOON, lambda: 0.5)
    window = keys.add(Refusal(DAILY, tomorrow), NOON, lambda: 0.5)

    assert keys.find((SLOTS,), NOON) is slots
    assert keys.find((SLOTS,), NOON + CACHE_TTL) is None
    assert keys.find((DAILY,), tomorrow - CACHE_TTL) is window
    assert keys.find((DAILY,), tomorrow) is None
    assert keys.find((LimitKey("smtp:8", SLOTS.limit),), NOON) is None


def test_the_end_of_a_job_frees_slots_but_no_window() -> None:
    """Jobs already snoozed for the slots keep their positions; the next one is placed behind them."""
    keys = ExhaustedKeys()
    keys.add(Refusal(SLOTS), NOON, lambda: 0.5).snooze()
    keys.add(Refusal(DAILY, NOON + timedelta(days=1)), NOON, lambda: 0.5)

    keys.expire_slots((SLOTS, DAILY))

    assert keys.find((SLOTS,), NOON) is None
    assert keys.find((DAILY,), NOON) is not None
    assert keys.add(Refusal(SLOTS), NOON, lambda: 0.5).snoozed == 1


def test_a_key_is_active_while_this_runner_uses_it() -> None:
    """For half a second after the start or end of its last job, and not at all if the runner has none."""
    keys = ExhaustedKeys()
    keys.moved_at["smtp:7"] = 100.0

    assert keys.is_active("smtp:7", now=100.0 + ACTIVE_SECONDS - 0.01)
    assert not keys.is_active("smtp:7", now=100.0 + ACTIVE_SECONDS)
    assert not keys.is_active("smtp:8", now=100.0)
