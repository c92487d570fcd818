"""The lines that optional steps of a cycle add to its summary."""

from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.steps import BatchStep, CycleStep, LongLanes, PausedLanes, ScheduleStep


def make_step(kind: type[CycleStep], **figures: Any) -> CycleStep:
    cycle: Any = SimpleNamespace(
        context=None,
        planned=SimpleNamespace(plan=SimpleNamespace(paused=figures.pop("paused", ()))),
        supervisor=SimpleNamespace(left_running=figures.pop("left_running", [])),
    )
    step = kind(cycle)
    vars(step).update(figures)
    return step


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        (make_step(ScheduleStep), []),
        (make_step(ScheduleStep, fired=3), ["Schedules fired: 3, left out: 0"]),
        (make_step(ScheduleStep, skipped=1), ["Schedules fired: 0, left out: 1"]),
        (make_step(PausedLanes), []),
        (make_step(PausedLanes, paused=("imports", "mail")), ["Paused lanes: imports, mail"]),
        (make_step(BatchStep), []),
        (make_step(BatchStep, completed=2), ["Batches completed: 2"]),
        (make_step(LongLanes), []),
        (make_step(LongLanes, left_running=["a runner"]), ["Left running: 1"]),
    ],
)
def test_a_step_has_a_line_if_it_has_a_figure(step: CycleStep, lines: list[str]) -> None:
    """Installations that do not use a feature do not read of it."""
    assert step.summary_lines() == lines
