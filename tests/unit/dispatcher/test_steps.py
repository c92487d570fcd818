"""Optional steps of a cycle: their lines in its summary."""

from types import SimpleNamespace
from typing import Any

import pytest

from dispatcher.steps import BatchStep, CycleStep, ScheduleStep


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
