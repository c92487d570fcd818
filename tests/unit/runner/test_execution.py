"""A job beside the main thread: when something is due about it."""

from math import inf

import pytest

from mayfly.job import Job
from mayfly.process.timing import timing
from mayfly.registry import Handler
from runner.concurrent.executor import Execution
from runner.guard import Cause
from tests.factories import make_job

GUARD = 150.0


def plain(job: Job) -> None: ...


def make_run(timeout: float | None = None) -> Execution:
    return Execution(make_job(), Handler("fetch", plain, timeout=timeout, threads=5), started=100.0)


@pytest.mark.parametrize(("timeout", "due"), [(None, GUARD), (20.0, 120.0), (80.0, GUARD)])
def test_the_first_thing_due_is_its_limit_or_the_runners_end(timeout: float | None, due: float) -> None:
    """Whichever comes first."""
    assert make_run(timeout).due(GUARD) == due


def test_an_interruption_is_repeated_until_it_is_left_behind() -> None:
    """Twice a second, for two seconds after the first."""
    run = make_run(20.0)
    dues = []
    while not run.cannot_be_ended(run.due(GUARD)):
        dues.append(run.due(GUARD))
        run.note_interruption(run.due(GUARD), Cause.TIMEOUT)

    assert dues == [120.0, 120.5, 121.0, 121.5]
    assert run.due(GUARD) == 122.0 == 120.0 + timing().hard_exit_seconds


def test_the_first_cause_is_the_cause() -> None:
    """A job past its own limit has timed out, even if the guard came while it ended."""
    run = make_run(20.0)
    run.note_interruption(120.0, Cause.TIMEOUT)
    run.note_interruption(150.0, Cause.GUARD)

    assert run.cause is Cause.TIMEOUT
    assert make_run().timeout_at == inf
