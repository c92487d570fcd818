"""A job interrupted at the end of a window is the first job of a fresh runner, and finishes there."""

from collections.abc import Mapping

import pytest

from tests.process.installation import Installation, wait_until

WINDOW: Mapping[str, str] = {
    "HANDLERS": "tests.process.sample_handlers.long_jobs",
    "WORKER_TIMEOUT": "4",
    "DISPATCH_TIMEOUT": "6",
    "MAX_WORKERS": "1",
    "CONCURRENCY": "1",
}
MOST_OF_A_WINDOW = '{"seconds": 2.4}'  # 60 %: of two in one window, the second is interrupted


@pytest.mark.parametrize("type_name", ["nap", "nap_thread", "nap_async"])
def test_an_interrupted_job_is_run_first_by_a_fresh_runner(embedded: Installation, type_name: str) -> None:
    """It finishes there, uses no attempt, and its release is recorded. Later jobs of higher priority wait for it."""
    [_first, second] = embedded.enqueue(type_name, MOST_OF_A_WINDOW, count=2)
    embedded.dispatch(**WINDOW)
    interrupted = embedded.job(second)
    late = embedded.enqueue(type_name, MOST_OF_A_WINDOW, count=2, priority=0)

    embedded.dispatch(**WINDOW)

    assert (interrupted.status, interrupted.attempts, interrupted.interruptions) == ("pending", 0, 1)
    job = embedded.job(second)
    assert (job.status, job.attempts, job.claims) == ("done", 1, 2)
    assert job.started_at < embedded.job(late[0]).started_at
    [release] = embedded.rows(f"SELECT outcome, duration_ms FROM mayfly_attempts WHERE job_id = {second}")
    assert (release.outcome, release.duration_ms > 1000) == ("released", True)


def test_each_fresh_runner_starts_with_one_interrupted_job(embedded: Installation) -> None:
    """Two were interrupted: two runners start with one each, before later jobs."""
    waiting = embedded.enqueue("nap", MOST_OF_A_WINDOW, count=2, interruptions=1)
    embedded.enqueue("short_task", MOST_OF_A_WINDOW, count=2, priority=0)

    embedded.dispatch(**{**WINDOW, "MAX_WORKERS": "2", "BATCH_SIZE": "1"})

    assert [embedded.job(each).status for each in waiting] == ["done", "done"]


def test_a_runner_started_by_hand_starts_with_it(embedded: Installation) -> None:
    """`python -m runner` is a fresh runner with a full window."""
    embedded.enqueue("short_task", MOST_OF_A_WINDOW, count=2, priority=0)
    waiting = embedded.enqueue("nap", MOST_OF_A_WINDOW, interruptions=1)[0]

    embedded.run("runner", **WINDOW)

    assert embedded.job(waiting).status == "done"


def test_a_job_that_always_times_out_is_dead(embedded: Installation) -> None:
    """After three interruptions each one uses an attempt."""
    options = {"max_attempts": 2, "interruptions": 3}
    job_id = embedded.enqueue("nap", '{"seconds": 60}', **options)[0]
    narrow = {**WINDOW, "WORKER_TIMEOUT": "2", "BACKOFF_BASE": "0.000001"}

    wait_until(lambda: embedded.dispatch(**narrow) and embedded.job(job_id).status == "dead", "it has ended")

    job = embedded.job(job_id)
    assert (job.status, job.attempts) == ("dead", 2)
    assert "timed out after" in job.last_error


def test_the_reason_for_waiting_is_shown(embedded: Installation) -> None:
    """`mayfly why` shows that it was interrupted and which runner will take it."""
    job_id = embedded.enqueue("nap", MOST_OF_A_WINDOW, interruptions=1)[0]

    why = embedded.run("mayfly", "why", str(job_id), **WINDOW)

    assert "It was interrupted once by the end of a window; a new runner will start with it." in why.stdout
