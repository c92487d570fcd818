"""Long lanes: a runner outlives its dispatcher, is counted, keeps its lease, and is ended at its own time."""

import os
import signal
from collections.abc import Mapping

import psutil
import pytest
from sqlalchemy import select

from mayfly.process.status_page import read_status_page
from mayfly.process.timing import Timing
from mayfly.schema.metadata import runners
from tests.factories import get_row
from tests.process.installation import Installation, StartedProcess, wait_until

LONG = {"LANES__IMPORT__WORKER_TIMEOUT": "10m", "LANES__IMPORT__MAX_WORKERS": "1"}
# The shortest that leaves a busy machine enough time to start a job.
SHORT = {"WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "6", "LANES__IMPORT__WORKER_TIMEOUT": "7s"}
FREQUENT_RENEWALS = Timing(lease_renewals=60)  # one per second, and the lease as long as ever


def end(dispatcher: StartedProcess) -> None:
    """It leaves its long runners running, as at its own deadline."""
    dispatcher.send_signal(signal.SIGTERM)
    assert (dispatcher.communicate(timeout=60), dispatcher.returncode) == (("", ""), 0)


def leave_running(installation: Installation, type_name: str, settings: Mapping[str, str] = LONG) -> int:
    """The job that a runner still works on after its dispatcher has ended. If that is interrupted, it has failed."""
    job_id = installation.enqueue(type_name, lane="import", interruptions=3)[0]
    dispatcher = installation.start("dispatcher", **settings)
    wait_until(
        lambda: is_running(installation, job_id), "the handler runs"
    )  # a job that was only claimed is released
    end(dispatcher)
    assert "Left running: 1" in installation.log
    return job_id


def is_running(installation: Installation, job_id: int) -> bool:
    pages = map(read_status_page, (installation.home / "state").glob("*/*.page"))
    return any(page is not None and page.running_job(job_id) is not None for page in pages)


def test_a_dispatcher_leaves_long_runners_running_when_its_time_is_over(embedded: Installation) -> None:
    """It ends with 0, and has interrupted nothing."""
    embedded.enqueue("latch", lane="import")

    cycle = embedded.dispatch(**{**LONG, "WORKER_TIMEOUT": "5", "DISPATCH_TIMEOUT": "6"})

    assert (cycle.returncode, cycle.stdout, cycle.stderr) == (0, "", "")
    assert "Left running: 1" in embedded.log
    embedded.wait_for_latch()
    embedded.release_latch()
    wait_until(lambda: embedded.statuses() == {"done": 1}, "the long job is done")


@pytest.mark.parametrize("spawn", ["fork", "exec"])
def test_a_long_runner_outlives_its_dispatcher(installation: Installation, spawn: str) -> None:
    """It counts against the lane's maximum in the next cycle, and ends its job and its row by itself."""
    window = {**LONG, "SPAWN": spawn}
    job_id = leave_running(installation, "latch", window)
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
    leave_running(embedded, "latch")
    embedded.enqueue("noop", lane="import")

    embedded.dispatch(**{**LONG, "LANES__IMPORT__MAX_WORKERS": "2"})

    wait_until(lambda: embedded.statuses() == {"processing": 1, "done": 1}, "it has had a runner of its own")
    embedded.release_latch()


def test_a_handler_that_holds_the_gil_keeps_its_lease_until_its_time_is_over(installation: Installation) -> None:
    """The keeper renews it; faulthandler ends the runner, its keeper ends with it, and the job has timed out."""
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


def test_a_handler_that_can_be_interrupted_is_when_its_time_is_over(embedded: Installation) -> None:
    """By its own runner, long after the dispatcher has gone."""
    job_id = leave_running(embedded, "oversleep", SHORT)

    wait_until(lambda: not embedded.processes(), "the runner has ended")

    job = get_row(embedded.database, job_id)
    assert (job.status, job.attempts) == ("pending", 1)
    assert job.last_error.startswith("timed out after")
    assert [each.ending for each in embedded.rows(select(runners))] == ["timeout"]


def test_the_jobs_of_a_long_runner_that_is_killed_are_rescued(installation: Installation) -> None:
    """The next cycle sees that it is gone; its page says which job it was in."""
    job_id = leave_running(installation, "latch")
    installation.wait_for_latch()

    os.kill(installation.runner_pids()[0], signal.SIGKILL)
    wait_until(lambda: not installation.processes(), "its keeper is gone, too")
    installation.dispatch(**LONG, BACKOFF_BASE="60")

    job = get_row(installation.database, job_id)
    assert (job.status, job.attempts, job.crashes) == ("pending", 0, 1)
    assert "Rescued 1 job of" in installation.log


def test_a_long_runner_ends_with_its_keeper(embedded: Installation) -> None:
    """Without one it would lose its lease and not know: the kernel ends it, and the next cycle rescues its job."""
    job_id = leave_running(embedded, "leave_child")
    embedded.wait_for_latch()

    os.kill(psutil.Process(embedded.runner_pids()[0]).ppid(), signal.SIGKILL)
    wait_until(lambda: not embedded.runner_pids() or not psutil.pid_exists(embedded.runner_pids()[0]), "it has ended")
    embedded.dispatch(**LONG, BACKOFF_BASE="60")

    assert get_row(embedded.database, job_id).crashes == 1
    wait_until(lambda: not embedded.processes(), "what its handler had started is ended by that cycle")


def test_a_long_runner_that_grows_too_large_is_killed_by_its_keeper(embedded: Installation) -> None:
    """No dispatcher is there any more; the next one knows why, and the job has crashed with that reason."""
    job_id = leave_running(embedded, "glutton_later", {**LONG, "WORKER_MEMORY": "400M"})
    embedded.release_latch()

    wait_until(lambda: not embedded.processes(), "the runner is killed, and its keeper has ended")
    embedded.dispatch(**LONG, BACKOFF_BASE="60")

    job = get_row(embedded.database, job_id)
    assert (job.status, job.crashes) == ("pending", 1)
    assert "its memory grew above WORKER_MEMORY" in job.last_error
    assert "above WORKER_MEMORY 400 MB: killing it" in embedded.log


def test_a_long_runner_that_grows_too_large_beside_its_dispatcher_is_told_once(embedded: Installation) -> None:
    """Whose keeper kills it; the dispatcher sees that, and judges by the same words."""
    job_id = embedded.enqueue("glutton", lane="import")[0]

    embedded.dispatch(**LONG, BACKOFF_BASE="60", WORKER_MEMORY="400M")

    assert get_row(embedded.database, job_id).crashes == 1
    assert "its memory grew above WORKER_MEMORY" in get_row(embedded.database, job_id).last_error
    assert embedded.log.count("killing it") == 1


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
@pytest.mark.parametrize("type_name", ["leave_child", "leave_daemon"])
def test_nothing_that_a_long_handler_starts_outlives_its_runner(
    embedded: Installation, type_name: str, killed: bool
) -> None:
    """In its group or in a session of its own, whether the runner ends or is killed: the keeper ends them."""
    leave_running(embedded, type_name)
    embedded.wait_for_latch()
    child = int((embedded.home / "child").read_text())
    assert psutil.pid_exists(child)

    if killed:
        os.kill(embedded.runner_pids()[0], signal.SIGKILL)
    else:
        embedded.release_latch()

    wait_until(lambda: not embedded.processes(), "the runner, its keeper and what they left are gone")
    assert not psutil.pid_exists(child)


def test_what_a_long_handler_prints_reaches_a_log_that_is_no_file(embedded: Installation) -> None:
    """LOG_TO=stdout, and the dispatcher that had it is gone: the keeper writes there."""
    embedded.enqueue("print_later", lane="import")

    dispatcher = embedded.start("dispatcher", **LONG, LOG_TO="stdout")
    embedded.wait_for_latch()
    dispatcher.send_signal(signal.SIGTERM)
    dispatcher.wait(timeout=60)
    embedded.release_latch()
    said, _ = dispatcher.communicate(timeout=60)

    assert "Left running: 1" in said
    assert "printed: long after the dispatcher" in said


def test_what_a_long_handler_prints_is_bounded_and_read_to_its_end(embedded: Installation) -> None:
    """Nobody waits for a full pipe; what was dropped is counted."""
    leave_running(embedded, "chatter_later")
    embedded.release_latch()

    wait_until(lambda: not embedded.processes(), "the runner and its keeper have ended")

    assert embedded.statuses() == {"done": 1}
    assert "more bytes, which were dropped" in embedded.log
    assert len(embedded.log) < 1 << 20


def test_a_long_runner_that_cannot_end_itself_is_ended_by_the_next_dispatcher(embedded: Installation) -> None:
    """Stopped past its last deadline, not even C code runs: it is killed, and its job has timed out."""
    embedded.timing = Timing(hard_exit_seconds=0.5, overdue_seconds=0.5)
    job_id = leave_running(embedded, "oversleep", SHORT)
    pid = embedded.runner_pids()[0]
    os.kill(pid, signal.SIGSTOP)

    def ended() -> bool:
        embedded.dispatch(**SHORT, BACKOFF_BASE="60")
        return bool(get_row(embedded.database, job_id).status == "pending")

    wait_until(ended, "a dispatcher has ended it")

    assert get_row(embedded.database, job_id).last_error.startswith("timed out after")
    wait_until(lambda: not embedded.processes(), "its keeper is gone, too")
