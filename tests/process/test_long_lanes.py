"""Long lanes: a runner outlives its dispatcher, is counted, keeps its lease, and is ended at its own time."""

import os
import signal

import pytest
from sqlalchemy import select

from tests.factories import get_row
from tests.process.installation import Installation, wait_until
from tests.tables import runners

WINDOW = {"DISPATCH_TIMEOUT": "3", "WORKER_TIMEOUT": "2", "LANES__IMPORT__MAX_WORKERS": "1"}


def leave_running(installation: Installation, type_name: str, timeout: str, **settings: str) -> int:
    """The job that a runner still works on after its dispatcher has ended."""
    job_id = installation.enqueue(type_name, lane="import")[0]
    cycle = installation.dispatch(**{**WINDOW, "LANES__IMPORT__WORKER_TIMEOUT": timeout, **settings})
    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert "Left running: 1" in installation.log
    wait_until(lambda: get_row(installation.database, job_id).status == "processing", "the runner has claimed")
    return job_id


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_a_long_runner_outlives_its_dispatcher(installation: Installation, spawn: str) -> None:
    """It counts against the lane's maximum in the next cycle, and ends its job and its row by itself."""
    window = {**WINDOW, "LANES__IMPORT__WORKER_TIMEOUT": "10m", "SPAWN": spawn}
    job_id = leave_running(installation, "latch", "10m", SPAWN=spawn)
    installation.enqueue("noop", lane="import")

    second = installation.dispatch(**window)

    assert (second.returncode, second.stderr) == (0, "")
    assert installation.statuses() == {"processing": 1, "pending": 1}
    assert "1 already running" in installation.log
    installation.release_latch()
    wait_until(lambda: get_row(installation.database, job_id).status == "done", "the long job is done")
    wait_until(lambda: not installation.processes(), "the runner and its keeper are gone")
    assert [each.ending for each in installation.rows(select(runners))] == ["ok"]
    assert installation.dispatch(**window).returncode == 0
    wait_until(lambda: installation.statuses() == {"done": 2}, "the next one has had its turn")
    assert "Rescued" not in installation.log


def test_a_busy_long_runner_is_not_waited_for(embedded: Installation) -> None:
    """Below the lane's maximum a job gets a runner of its own, however long the others are."""
    leave_running(embedded, "latch", "10m")
    embedded.enqueue("noop", lane="import")

    embedded.dispatch(**{**WINDOW, "LANES__IMPORT__WORKER_TIMEOUT": "10m", "LANES__IMPORT__MAX_WORKERS": "2"})

    assert embedded.statuses() == {"processing": 1, "done": 1}
    embedded.release_latch()


def test_a_handler_that_holds_the_gil_keeps_its_lease_until_its_time_is_over(installation: Installation) -> None:
    """The keeper renews it; faulthandler ends the runner, its keeper ends with it, and the job has timed out."""
    job_id = leave_running(installation, "blocked", "18s")
    before = get_row(installation.database, job_id).lease_until

    wait_until(lambda: get_row(installation.database, job_id).lease_until > before, "the lease is renewed")
    wait_until(lambda: not installation.processes(), "the runner has ended itself, and its keeper with it")
    cycle = installation.dispatch(**{**WINDOW, "LANES__IMPORT__WORKER_TIMEOUT": "18s"})

    job = get_row(installation.database, job_id)
    assert cycle.returncode == 0
    assert (job.attempts, job.crashes) == (1, 0)
    assert job.last_error.startswith("timed out after")


def test_a_handler_that_can_be_interrupted_is_when_its_time_is_over(embedded: Installation) -> None:
    """By its own runner, long after the dispatcher has gone."""
    job_id = leave_running(embedded, "oversleep", "15s")

    wait_until(lambda: not embedded.processes(), "the runner has ended")

    job = get_row(embedded.database, job_id)
    assert (job.status, job.attempts) == ("pending", 1)
    assert job.last_error.startswith("timed out after")
    assert [each.ending for each in embedded.rows(select(runners))] == ["timeout"]


def test_the_jobs_of_a_long_runner_that_is_killed_are_rescued(installation: Installation) -> None:
    """The next cycle sees that it is gone; its page says which job it was in."""
    job_id = leave_running(installation, "latch", "10m")
    installation.wait_for_latch()

    os.kill(installation.runner_pids()[0], signal.SIGKILL)
    wait_until(lambda: not installation.processes(), "its keeper is gone, too")
    installation.dispatch(**{**WINDOW, "LANES__IMPORT__WORKER_TIMEOUT": "10m", "BACKOFF_BASE": "60"})

    job = get_row(installation.database, job_id)
    assert (job.status, job.attempts, job.crashes) == ("pending", 0, 1)
    assert "Rescued 1 jobs" in installation.log


def test_a_long_runner_that_cannot_end_itself_is_ended_by_the_next_dispatcher(embedded: Installation) -> None:
    """Stopped past its last deadline, not even C code runs: it is killed, and its job has timed out."""
    job_id = leave_running(embedded, "oversleep", "4s")
    pid = embedded.runner_pids()[0]
    os.kill(pid, signal.SIGSTOP)
    window = {**WINDOW, "LANES__IMPORT__WORKER_TIMEOUT": "4s"}

    def ended() -> bool:
        embedded.dispatch(**window)
        return bool(get_row(embedded.database, job_id).status == "pending")

    wait_until(ended, "a dispatcher has ended it")

    assert get_row(embedded.database, job_id).last_error.startswith("timed out after")
    assert not embedded.processes()
