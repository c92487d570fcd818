"""Long lanes: a runner outlives its dispatcher, is counted, keeps its lease, and ends at its own deadline."""

import os
import signal
from collections.abc import Mapping

import psutil
import pytest
from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import runners
from tests.factories import get_row
from tests.process.installation import Installation, StartedProcess, wait_until

LONG = {"LANES__IMPORT__WORKER_TIMEOUT": "10m", "LANES__IMPORT__MAX_WORKERS": "1"}
# The shortest window in which a busy machine can start a job.
SHORT = {"WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "6", "LANES__IMPORT__WORKER_TIMEOUT": "7s"}
FREQUENT_RENEWALS = Timing(lease_renewals=60)  # one per second, with the normal lease


def end(dispatcher: StartedProcess) -> None:
    """It leaves its long runners running, as at its own deadline."""
    dispatcher.send_signal(signal.SIGTERM)
    assert (dispatcher.communicate(timeout=60), dispatcher.returncode) == (("", ""), 0)


def leave_running(installation: Installation, type_name: str, settings: Mapping[str, str] = LONG) -> int:
    """A job that is still running after its dispatcher has exited. If it is interrupted, it has failed."""
    job_id = installation.enqueue(type_name, lane="import", interruptions=3)[0]
    dispatcher = installation.start("dispatcher", **settings)
    # A job that was only claimed would be released.
    wait_until(lambda: installation.is_running(job_id), "the handler runs")
    end(dispatcher)
    assert "Left running: 1" in installation.log
    return job_id


def test_a_dispatcher_leaves_long_runners_running(embedded: Installation) -> None:
    """At its deadline it exits with 0, and interrupts nothing."""
    embedded.enqueue("gated", lane="import")

    cycle = embedded.dispatch(**{**LONG, "WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "6"})

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert "Left running: 1" in embedded.log
    embedded.wait_for_gate()
    embedded.open_gate()
    wait_until(lambda: embedded.statuses() == {"done": 1}, "the long job is done")


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_a_long_runner_outlives_its_dispatcher(installation: Installation, spawn: str) -> None:
    """The next cycle counts it against the lane's maximum; it settles its job and closes its row itself."""
    window = {**LONG, "SPAWN": spawn}
    job_id = leave_running(installation, "gated", window)
    installation.enqueue("noop", lane="import")

    second = installation.dispatch(**window)

    assert (second.returncode, second.stderr) == (0, "")
    assert installation.statuses() == {"processing": 1, "pending": 1}
    assert "1 already running" in installation.log
    installation.open_gate()
    wait_until(lambda: get_row(installation.database, job_id).status == "done", "the long job is done")
    wait_until(lambda: not installation.processes(), "the runner and its keeper are gone")
    assert [each.ending for each in installation.rows(select(runners))] == ["ok"]
    assert installation.dispatch(**window).returncode == 0
    wait_until(lambda: installation.statuses() == {"done": 2}, "the next job is done")
    assert "Rescued" not in installation.log


def test_a_busy_long_runner_is_not_waited_for(embedded: Installation) -> None:
    """Below the lane's maximum a new job gets a new runner, however long the others take."""
    leave_running(embedded, "gated")
    embedded.enqueue("noop", lane="import")

    embedded.dispatch(**{**LONG, "LANES__IMPORT__MAX_WORKERS": "2"})

    wait_until(lambda: embedded.statuses() == {"processing": 1, "done": 1}, "it has its own runner")
    embedded.open_gate()


def test_jobs_of_a_long_lane_are_claimed_one_at_a_time(embedded: Installation) -> None:
    """However fast the last ones were: none is claimed together with one that may take hours."""
    embedded.enqueue("noop", lane="import", count=3)
    embedded.enqueue("gated", lane="import")
    [after] = embedded.enqueue("noop", lane="import")
    dispatcher = embedded.start("dispatcher", **LONG)
    embedded.wait_for_gate()

    job = embedded.job(after)

    assert (job.status, job.claims) == ("pending", 0)
    embedded.open_gate()
    dispatcher.communicate(timeout=60)


def test_a_handler_that_holds_the_gil_keeps_its_lease_until_its_deadline(installation: Installation) -> None:
    """The keeper renews it; faulthandler ends the runner and its keeper, and the job has timed out."""
    installation.timing = FREQUENT_RENEWALS._replace(hard_exit_seconds=0.5)
    job_id = leave_running(installation, "blocked", SHORT)
    before = get_row(installation.database, job_id).lease_until

    wait_until(lambda: get_row(installation.database, job_id).lease_until > before, "the lease is renewed")
    wait_until(lambda: not installation.processes(), "the runner has ended itself, and its keeper with it")
    cycle = installation.dispatch(**SHORT, BACKOFF_BASE="60")

    job = get_row(installation.database, job_id)
    assert cycle.returncode == 0
    assert (job.attempts, job.crashes) == (1, 0)
    assert job.last_error.startswith("timed out after")


def test_an_interruptible_handler_is_interrupted_at_its_deadline(embedded: Installation) -> None:
    """By its own runner, long after the dispatcher has exited."""
    job_id = leave_running(embedded, "sleep_an_hour", SHORT)

    wait_until(lambda: not embedded.processes(), "the runner has ended")

    job = get_row(embedded.database, job_id)
    assert (job.status, job.attempts) == ("pending", 1)
    assert job.last_error.startswith("timed out after")
    assert [each.ending for each in embedded.rows(select(runners))] == ["timeout"]


def test_jobs_of_a_killed_long_runner_are_rescued(installation: Installation) -> None:
    """The next cycle notices it; the status page names the running job."""
    job_id = leave_running(installation, "gated")
    installation.wait_for_gate()

    os.kill(installation.runner_pids()[0], signal.SIGKILL)
    wait_until(lambda: not installation.processes(), "its keeper is gone, too")
    installation.dispatch(**LONG, BACKOFF_BASE="60")

    job = get_row(installation.database, job_id)
    assert (job.status, job.attempts, job.crashes) == ("pending", 0, 1)
    assert "Rescued 1 job of" in installation.log


def test_a_long_runner_ends_with_its_keeper(embedded: Installation) -> None:
    """Otherwise it could lose its lease unnoticed: the kernel kills it, and the next cycle rescues its job."""
    job_id = leave_running(embedded, "leave_child")
    embedded.wait_for_gate()

    os.kill(psutil.Process(embedded.runner_pids()[0]).ppid(), signal.SIGKILL)
    wait_until(lambda: not embedded.runner_pids() or not psutil.pid_exists(embedded.runner_pids()[0]), "it has ended")
    embedded.dispatch(**LONG, BACKOFF_BASE="60")

    assert get_row(embedded.database, job_id).crashes == 1
    wait_until(lambda: not embedded.processes(), "that cycle ends the children of its handler")


def test_a_long_runner_over_its_memory_is_killed_by_its_keeper(embedded: Installation) -> None:
    """After its dispatcher has exited; the next one knows the reason, and the job has crashed with it."""
    job_id = leave_running(embedded, "allocate_later", {**LONG, "WORKER_MEMORY": "400M"})
    embedded.open_gate()

    wait_until(lambda: not embedded.processes(), "the runner is killed, and its keeper has ended")
    embedded.dispatch(**LONG, BACKOFF_BASE="60")

    job = get_row(embedded.database, job_id)
    assert (job.status, job.crashes) == ("pending", 1)
    assert "its memory grew above WORKER_MEMORY" in job.last_error
    assert "above WORKER_MEMORY 400 MB: killing it" in embedded.log


def test_a_long_runner_over_its_memory_is_reported_once(embedded: Installation) -> None:
    """The keeper kills it while its dispatcher runs, which reports the same reason."""
    job_id = embedded.enqueue("allocate", lane="import")[0]

    embedded.dispatch(**LONG, BACKOFF_BASE="60", LANES__IMPORT__WORKER_MEMORY="400M")

    assert get_row(embedded.database, job_id).crashes == 1
    assert "its memory grew above WORKER_MEMORY" in get_row(embedded.database, job_id).last_error
    assert embedded.log.count("killing it") == 1


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
@pytest.mark.parametrize("type_name", ["leave_child", "leave_daemon"])
def test_processes_of_a_long_handler_do_not_outlive_its_runner(
    embedded: Installation, type_name: str, killed: bool
) -> None:
    """In its group or in another session, whether the runner exits or is killed: the keeper ends them."""
    leave_running(embedded, type_name)
    embedded.wait_for_gate()
    child = int((embedded.home / "child").read_text())
    assert psutil.pid_exists(child)

    if killed:
        os.kill(embedded.runner_pids()[0], signal.SIGKILL)
    else:
        embedded.open_gate()

    wait_until(lambda: not embedded.processes(), "the runner, its keeper and what they left are gone")
    assert not psutil.pid_exists(child)


def test_output_of_a_long_handler_reaches_a_log_on_stdout(embedded: Installation) -> None:
    """The keeper writes it to LOG_TO=stdout after the dispatcher has exited."""
    embedded.enqueue("print_later", lane="import")

    dispatcher = embedded.start("dispatcher", **LONG, LOG_TO="stdout")
    embedded.wait_for_gate()
    dispatcher.send_signal(signal.SIGTERM)
    dispatcher.wait(timeout=60)
    embedded.open_gate()
    output, _ = dispatcher.communicate(timeout=60)

    assert "Left running: 1" in output
    assert "printed: long after the dispatcher" in output


def test_output_of_a_long_handler_is_bounded(embedded: Installation) -> None:
    """No process waits for a full pipe; dropped bytes are counted."""
    leave_running(embedded, "print_much_later")
    embedded.open_gate()

    wait_until(lambda: not embedded.processes(), "the runner and its keeper have ended")

    assert embedded.statuses() == {"done": 1}
    assert "more bytes, which were dropped" in embedded.log
    assert len(embedded.log) < 1 << 20


def test_a_stopped_long_runner_is_ended_by_the_next_dispatcher(embedded: Installation) -> None:
    """A stopped process cannot end itself: past its last deadline it is killed, and its job has timed out."""
    embedded.timing = Timing(hard_exit_seconds=0.5, overdue_seconds=0.5)
    job_id = leave_running(embedded, "sleep_an_hour", SHORT)
    pid = embedded.runner_pids()[0]
    os.kill(pid, signal.SIGSTOP)

    def ended() -> bool:
        embedded.dispatch(**SHORT, BACKOFF_BASE="60")
        return bool(get_row(embedded.database, job_id).status == "pending")

    wait_until(ended, "a dispatcher has ended it")

    assert get_row(embedded.database, job_id).last_error.startswith("timed out after")
    wait_until(lambda: not embedded.processes(), "its keeper is gone, too")
