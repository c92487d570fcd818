"""What a cycle knows about the runners that have exited."""

from dispatcher.rescue import Exit, ExitedRunner, RunnerResults
from mayfly.fleet.runners import Assignment
from mayfly.process.status_page import RunnerStatus
from tests.factories import NOON


def test_repeated_transactions_of_runners_are_added_up() -> None:
    """They come from the status pages and are added to the dispatcher's own."""
    results = RunnerResults()
    assignment = Assignment("worker-1", "mail", 1, deadline=0, window_seconds=50, lease_until=NOON)

    for repeats in (2, 3):
        exit_ = Exit(0, RunnerStatus(repeats=repeats), ended=1.0)
        results.add(ExitedRunner(assignment, exit_, lived_ms=1, cpu_ms=1, first_lane="mail"))

    assert results.repeats == 5
