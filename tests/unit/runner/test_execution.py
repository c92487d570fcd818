"""The deadlines of a concurrent job."""

from math import inf

import pytest

from mayfly.job import Job
from mayfly.process import timing
from mayfly.registry import Handler
from runner.execution import Execution
from runner.guard import Cause
from tests.factories import make_job

GUARD = 150.0


def plain(job: Job) -> None: ...


def make_run(timeout: float | None = None) -> Execution:
    return Execution(make_job(), Handler("fetch", plain, timeout=timeout, threads=5), started=100.0)


@pytest.mark.parametrize(("timeout", "due"), [(None, GUARD), (20.0, 120.0), (80.0, GUARD)])
def test_the_first_deadline_is_the_timeout_or_the_end_of_the_window(timeout: float | None, due: float) -> None:
    """The earlier one counts."""
    assert make_run(timeout).due(GUARD) == due


def test_an_interruption_is_repeated_until_the_job_is_abandoned() -> None:
    """Twice a second, for two seconds after the first."""
    run = make_run(20.0)
    dues = []
    while run.due(GUARD) < run.gives_up_at:
        dues.append(run.due(GUARD))
        run.note_interruption(run.due(GUARD), Cause.TIMEOUT)

    assert dues == [120.0, 120.5, 121.0, 121.5]
    assert run.due(GUARD) == 122.0 == 120.0 + timing().hard_exit_seconds


def test_the_first_cause_of_an_interruption_counts() -> None:
    """A job past its own timeout has timed out, even if the guard fires while it ends."""
    run = make_run(20.0)
    run.note_interruption(120.0, Cause.TIMEOUT)
    run.note_interruption(150.0, Cause.GUARD)

    assert run.cause is Cause.TIMEOUT
    assert make_run().timeout_at == inf
