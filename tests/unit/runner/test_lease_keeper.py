"""What a lease keeper notes about a runner that did not close its row."""

import pytest

from mayfly.process.status_page import RunnerStatus, RunningJob
from runner.lease_keeper import death_of
from tests.factories import NOON

BUSY = RunnerStatus(running=(RunningJob(7, started=90.0, timeout=None),))


@pytest.mark.parametrize(
    ("status", "code", "ending", "exit_code", "signal"),
    [
        (BUSY, -11, "crash", None, 11),
        (BUSY, 0, "crash", 0, None),  # os._exit(0) in a handler
        (RunnerStatus(), -9, "crash", None, 9),
        (RunnerStatus(running=BUSY.running, hard_deadline=99.0), 1, "timeout", 1, None),
        (RunnerStatus(running=BUSY.running, hard_deadline=101.0), 1, "crash", 1, None),
        (RunnerStatus(), 0, "ok", 0, None),
        (RunnerStatus(), 2, "timeout", 2, None),
        (RunnerStatus(), 1, "error", 1, None),
    ],
)
def test_how_it_ended(
    status: RunnerStatus, code: int, ending: str, exit_code: int | None, signal: int | None
) -> None:
    """As the dispatcher judges its own runners."""
    death = death_of(status, code, at=100.0, now=NOON)

    assert (death.ending, death.exit_code, death.signal) == (ending, exit_code, signal)
    assert [NOON.timestamp() - each.timestamp() for each in death.running.values()] == [10.0 for _ in status.running]
