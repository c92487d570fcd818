"""Cycles by minute: a missing cycle is a gap, a late one is not."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.admin.fleet import CycleView, Gap, is_overrun, missed_between, with_gaps
from mayfly.clock import milliseconds

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def cycle(minute: float, host: str = "a", duration_ms: int | None = 900) -> CycleView:
    at = NOON + minute * MINUTE
    ended = None if duration_ms is None else at + timedelta(milliseconds=duration_ms)
    return CycleView(milliseconds(at), host, at, ended, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, duration_ms, None)


def gaps(*cycles: CycleView, until: dict[str, float] | None = None) -> list[tuple[str, int]]:
    following = {host: NOON + minute * MINUTE for host, minute in (until or {}).items()}
    found = with_gaps(sorted(cycles, reverse=True), following)
    return [(each.host, each.missed_minutes) for each in found if isinstance(each, Gap)]


@pytest.mark.parametrize(("seconds", "missed"), [(0, 0), (60, 0), (62, 0), (89, 0), (91, 1), (120, 1), (300, 4)])
def test_a_late_cycle_is_not_a_missed_minute(seconds: int, missed: int) -> None:
    """Cron may be some seconds late; half a minute counts as missed."""
    assert missed_between(NOON, NOON + timedelta(seconds=seconds)) == missed


def test_a_gap_stands_between_its_two_cycles() -> None:
    """The newest comes first."""
    found = list(with_gaps([cycle(5), cycle(2), cycle(1)], {}))

    assert found == [cycle(5), Gap("a", NOON + 2 * MINUTE, NOON + 5 * MINUTE, 2), cycle(2), cycle(1)]


def test_each_host_has_its_own_gaps() -> None:
    """A cycle of another host does not fill a gap."""
    assert gaps(*(cycle(each) for each in range(5)), cycle(0.2, "b"), cycle(4.2, "b")) == [("b", 3)]


def test_minutes_missing_until_now_are_a_gap() -> None:
    """So a cron that has stopped silently is visible."""
    assert gaps(cycle(0), cycle(1), until={"a": 8}) == [("a", 6)]
    assert gaps(cycle(0), cycle(1), until={"a": 2}) == []


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from("abc")), max_size=60, unique=True))
def test_cycles_and_gaps_fill_the_time_of_each_host(given: list[tuple[int, str]]) -> None:
    """No minute is skipped or counted twice."""
    cycles = sorted((cycle(minute, host) for minute, host in given), key=lambda each: each.started_at, reverse=True)

    found = list(with_gaps(cycles, {}))

    assert [each for each in found if isinstance(each, CycleView)] == cycles
    for host in {host for _, host in given}:
        minutes = [minute for minute, name in given if name == host]
        missed = sum(each.missed_minutes for each in found if isinstance(each, Gap) and each.host == host)
        assert missed + len(minutes) == max(minutes) - min(minutes) + 1


@pytest.mark.parametrize(("took", "is_long"), [(60_000, False), (60_001, True), (900, False)])
def test_a_cycle_longer_than_a_minute_is_an_overrun(took: int, is_long: bool) -> None:
    """The next cycle finds the lock held."""
    assert is_overrun(cycle(0, duration_ms=took), NOON) is is_long


def test_a_cycle_without_an_end_is_an_overrun_after_a_minute() -> None:
    """It hangs or was killed."""
    assert not is_overrun(cycle(0, duration_ms=None), NOON + timedelta(seconds=59))
    assert is_overrun(cycle(0, duration_ms=None), NOON + timedelta(seconds=61))
