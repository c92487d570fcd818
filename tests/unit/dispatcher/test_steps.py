"""Optional steps of a cycle: their lines in its summary, and how long the supervisor may wait."""

from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.steps import BatchStep, CycleStep, Linger, ScheduleStep
from dispatcher.supervise import TICK_SECONDS
from mayfly.clock import monotonic


def make_step(kind: type[CycleStep], **figures: Any) -> CycleStep:
    cycle: Any = SimpleNamespace(context=None)
    step = kind(cycle)
    vars(step).update(figures)
    return step


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        (make_step(ScheduleStep), []),
        (make_step(ScheduleStep, fired=3), ["Schedules fired: 3, skipped: 0"]),
        (make_step(ScheduleStep, skipped=1), ["Schedules fired: 0, skipped: 1"]),
        (make_step(BatchStep), []),
        (make_step(BatchStep, completed=2), ["Batches completed: 2"]),
    ],
)
def test_a_step_has_a_line_if_it_has_a_figure(step: CycleStep, lines: list[str]) -> None:
    """Installations that do not use a feature have no line about it."""
    assert step.summary_lines() == lines


def make_linger(may_spawn: bool) -> Linger:
    """Of a dispatcher that lingers for a minute, and whose next poll is overdue."""
    settings = SimpleNamespace(longest_linger=60, poll_interval=0.0)
    context = SimpleNamespace(settings=settings, lingers_until=lambda seconds: monotonic() + seconds)
    cycle: Any = SimpleNamespace(context=context, supervisor=SimpleNamespace(may_spawn=may_spawn))
    return Linger(cycle)


def test_an_overdue_poll_is_not_delayed() -> None:
    """The supervisor returns at once."""
    assert make_linger(may_spawn=True).seconds_to_poll == 0


def test_a_dispatcher_that_has_handed_over_waits_for_events() -> None:
    """It polls no more: without a wait it would use a whole processor until its last runner has exited."""
    assert make_linger(may_spawn=False).seconds_to_poll == TICK_SECONDS
