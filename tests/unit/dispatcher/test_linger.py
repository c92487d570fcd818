"""When a lingering dispatcher polls which lanes."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatcher.linger import BUSY_LANE_SECONDS, SECONDS_PER_LANE, Linger, PollSchedule
from dispatcher.supervise import TICK_SECONDS
from mayfly.clock import monotonic

LONGEST = 1.0
NONE_WAIT: frozenset[str] = frozenset()


def make_schedule(*active: str) -> PollSchedule:
    """At second 0; in the active lanes a job has just arrived."""
    schedule = PollSchedule(LONGEST, 0.0)
    schedule.expect_jobs(active, 0.0)
    return schedule


@given(st.floats(0, 100), st.floats(0.01, 5))
def test_all_lanes_are_polled_once_per_interval(at: float, longest: float) -> None:
    """From the start on: in which of them jobs arrive is not known yet."""
    schedule = PollSchedule(longest, 0.0)

    assert schedule.next_at(NONE_WAIT, 0.0) == longest
    assert schedule.lanes_to_poll(NONE_WAIT, longest + at) is None
    assert schedule.next_at(NONE_WAIT, longest + at) == longest + at + longest


def test_an_active_lane_is_polled_alone_and_often() -> None:
    """Until a runner waits in it, which polls itself."""
    schedule = make_schedule("mail")

    assert schedule.next_at(NONE_WAIT, 0.0) < 0.01
    assert schedule.lanes_to_poll(NONE_WAIT, 0.01) == ["mail"]
    assert schedule.next_at({"mail"}, 0.0) == LONGEST


def test_a_lane_whose_jobs_wait_for_runners_is_not_polled_for_a_while() -> None:
    """Its plan would be the same; an exited runner is an event of its own."""
    schedule = make_schedule("mail")

    schedule.note_busy(["mail"], 0.0)

    assert schedule.next_at(NONE_WAIT, BUSY_LANE_SECONDS / 2) == LONGEST
    assert schedule.next_at(NONE_WAIT, BUSY_LANE_SECONDS) < LONGEST


def test_an_announced_lane_is_polled_at_once() -> None:
    """However rare polls are; once, and not if a runner waits in it, or if its jobs wait for runners."""
    schedule = PollSchedule(LONGEST, 0.0, extra=3600.0)

    schedule.announce_jobs(["mail"], 10.0)

    assert schedule.next_at(NONE_WAIT, 10.0) <= 10.0
    assert schedule.next_at({"mail"}, 10.0) > 3600.0
    assert schedule.lanes_to_poll(NONE_WAIT, 10.0) == ["mail"]
    assert schedule.next_at(NONE_WAIT, 10.0) > 3600.0
    schedule.note_busy(["mail"], 10.0)
    schedule.announce_jobs(["mail"], 10.1)
    assert schedule.next_at(NONE_WAIT, 10.1) > 3600.0


@given(st.integers(0, 100_000))
def test_many_lanes_are_polled_less_often(lanes: int) -> None:
    """A millisecond per lane: a poll of all lanes costs a small share of the time, however many there are."""
    schedule = make_schedule()

    schedule.note_lanes(lanes)

    assert schedule.next_at(NONE_WAIT, 0.0) == max(LONGEST, lanes * SECONDS_PER_LANE)


def test_a_lane_without_jobs_for_long_is_not_active_any_more() -> None:
    """It is polled with all others."""
    schedule = make_schedule("mail")

    schedule.lanes_to_poll(NONE_WAIT, 60.0)

    assert schedule.next_at(NONE_WAIT, 60.0) == 60.0 + LONGEST
    assert schedule.active_since(-1.0) == frozenset()


def make_linger(may_spawn: bool) -> Linger:
    """Of a dispatcher that lingers for a minute, and whose next poll is overdue."""
    settings = SimpleNamespace(longest_linger=60, poll_interval=0.0)
    context = SimpleNamespace(settings=settings, lingers_until=lambda seconds: monotonic() + seconds)
    supervisor = SimpleNamespace(may_spawn=may_spawn, idle_by_lane=dict)
    cycle: Any = SimpleNamespace(context=context, supervisor=supervisor)
    return Linger(cycle)


def test_an_overdue_poll_is_not_delayed() -> None:
    """The supervisor returns at once."""
    assert make_linger(may_spawn=True).seconds_to_poll == 0


def test_a_dispatcher_that_has_handed_over_waits_for_events() -> None:
    """It polls no more: without a wait it would use a whole processor until its last runner has exited."""
    assert make_linger(may_spawn=False).seconds_to_poll == TICK_SECONDS
