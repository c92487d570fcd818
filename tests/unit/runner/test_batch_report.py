"""What a batch reports to the claim loop."""

from typing import Any, cast

import pytest

from mayfly.log import silent_log
from mayfly.queue.outcome import RELEASED
from runner.batch import MIN_INTERRUPTED_MS, BatchReport, BatchRunner
from runner.guard import Cause
from runner.invoke import JobResult
from tests.factories import make_job

NOT_USED = cast(Any, None)


@pytest.mark.parametrize(
    ("cause", "duration_ms", "is_timeout"),
    [
        (Cause.GUARD, MIN_INTERRUPTED_MS, True),
        (Cause.GUARD, MIN_INTERRUPTED_MS - 1, False),
        (Cause.STOP, MIN_INTERRUPTED_MS, False),
    ],
)
def test_only_a_job_that_had_its_full_time_makes_a_timeout(cause: Cause, duration_ms: int, is_timeout: bool) -> None:
    """A job that started just before the end of the window is released, and the runner exits with 0."""
    batches = BatchRunner(NOT_USED, NOT_USED, NOT_USED, silent_log())
    report = BatchReport()

    batches.note(make_job(), JobResult(RELEASED, duration_ms, cause), report)

    assert report.guard_interrupted is is_timeout
