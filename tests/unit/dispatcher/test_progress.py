"""What a cycle remembers of its runners."""

from dispatcher.cycle import CycleState
from dispatcher.exits import Exit
from dispatcher.spawn import EndedChild
from mayfly.fleet.runners import Assignment
from mayfly.process.status_page import RunnerStatus
from tests.factories import NOON


def test_transactions_that_runners_repeated_are_added_up() -> None:
    """By what stood on their pages when they ended: the cycle tells them with its own."""
    progress = CycleState()
    assignment = Assignment("worker-1", "mail", 1, deadline=0, window_seconds=50, lease_until=NOON)

    for repeats in (2, 3):
        progress.note(EndedChild(assignment, Exit(0, RunnerStatus(repeats=repeats), ended=1.0), lived_ms=1, cpu_ms=1))

    assert progress.repeats == 5
