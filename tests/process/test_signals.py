"""SIGTERM and SIGINT: no new job starts, running jobs may finish, and the others are released."""

import os
import signal
import time

import pytest
from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import cycles, jobs, runners
from tests.process.installation import Installation, StartedProcess, handler_modules, wait_until

LONG_WINDOW = {"LANES__IMPORT__WORKER_TIMEOUT": "1h"}  # the guard comes long after a stop timeout


def test_a_stopped_dispatcher_releases_jobs(installation: Installation) -> None:
    """The running job finishes, the others of its batch are as if never claimed, and the summary is written."""
    ids = stopped_batch(installation)
    dispatcher = start_and_wait(installation)

    dispatcher.send_signal(signal.SIGTERM)
    wait_until(lambda: "Received SIGTERM: stopping" in installation.log, "the dispatcher has signalled its runner")
    installation.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    found = {row.id: row for row in installation.rows(select(jobs))}
    assert [found[each].status for each in ids] == ["done", "pending", "pending"]
    assert [found[each].attempts for each in ids] == [1, 0, 0]
    assert [found[each].worker_id for each in ids[1:]] == [None, None]
    assert "[DISPATCHER] WARNING: Received SIGTERM: stopping 1 worker, releasing unfinished jobs" in installation.log
    assert "Dispatch Summary:" in installation.log
    assert [(row.exit_code, row.spawned) for row in installation.rows(select(cycles))] == [(0, 1)]
    assert [row.ending for row in installation.rows(select(runners))] == ["ok"]


def test_a_second_signal_changes_nothing(embedded: Installation) -> None:
    """A repeated Ctrl-C still ends the cycle in order; a lane that waits for a slot is not started."""
    ids = stopped_batch(embedded)
    waiting = embedded.enqueue("noop", lane="waiting")
    dispatcher = start_and_wait(embedded, HOST_MAX_WORKERS="1")

    dispatcher.send_signal(signal.SIGINT)
    wait_until(lambda: "Received SIGINT: stopping" in embedded.log, "the dispatcher has signalled its runner")
    dispatcher.send_signal(signal.SIGINT)
    dispatcher.send_signal(signal.SIGTERM)
    embedded.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    statuses = {row.id: row.status for row in embedded.rows(select(jobs))}
    assert [statuses[each] for each in [*ids, *waiting]] == ["done", "pending", "pending", "pending"]
    assert embedded.log.count("Received") == 2  # one each by dispatcher and runner
    assert embedded.log.count("Dispatch Summary:") == 1


def test_ctrl_c_in_the_foreground_loses_nothing(embedded: Installation) -> None:
    """SIGINT to dispatcher and runner, as a terminal sends it, is the same as to the dispatcher alone."""
    ids = stopped_batch(embedded)
    dispatcher = start_and_wait(embedded)

    for pid in (dispatcher.pid, *embedded.runner_pids()):
        os.kill(pid, signal.SIGINT)
    wait_until(lambda: "Received SIGINT: stopping" in embedded.log, "the dispatcher has signalled its runner")
    embedded.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    statuses = {row.id: row.status for row in embedded.rows(select(jobs))}
    assert [statuses[each] for each in ids] == ["done", "pending", "pending"]


def test_a_stopped_runner_interrupts_a_long_job_only_at_the_guard(embedded: Installation) -> None:
    """Until then the job may finish; then it is released, because it started late."""
    embedded.enqueue("sleep", '{"seconds": 1}')
    job_id = embedded.enqueue("sleep_an_hour")[0]
    dispatcher = embedded.start("dispatcher", WORKER_TIMEOUT="5", DISPATCH_TIMEOUT="30")
    wait_until(lambda: embedded.statuses().get("done") == 1, "the long job runs")

    dispatcher.send_signal(signal.SIGTERM)

    dispatcher.communicate()
    assert dispatcher.returncode == 2
    job = embedded.job(job_id)
    assert (job.status, job.attempts, job.interruptions) == ("pending", 0, 1)
    runner = embedded.rows(select(runners))[0]
    assert (runner.ending, runner.exit_code) == ("timeout", 2)
    assert (runner.finished_at - runner.planned_at).total_seconds() >= 5
    assert "Exceeded" not in embedded.log, "the dispatcher's guard had nothing to do"
    assert f"Time is up: interrupted job {job_id} (sleep_an_hour)" in embedded.log


def test_a_runner_that_is_stopped_alone_finishes_its_job(embedded: Installation) -> None:
    """The rest of its batch goes to the next runner of the cycle."""
    ids = stopped_batch(embedded)
    dispatcher = start_and_wait(embedded)
    runner = embedded.runner_pids()[0]

    os.kill(runner, signal.SIGTERM)
    embedded.open_gate()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    assert [embedded.job(each).claims for each in ids] == [1, 2, 2]
    assert embedded.statuses() == {"done": 3}
    assert [row.ending for row in embedded.rows(select(runners))] == ["ok", "ok"]
    assert "Received SIGTERM: claiming no more jobs" in embedded.log


def test_a_running_job_may_continue_for_30_seconds_after_sigterm(embedded: Installation) -> None:
    """The runner announces in its status page when it ends at the latest; no test has to wait that long."""
    embedded.enqueue("gated", lane="import")
    start_and_wait(embedded, **LONG_WINDOW)
    window_ends_at = hard_deadline(embedded)

    before = time.monotonic()
    os.kill(embedded.runner_pids()[0], signal.SIGTERM)
    wait_until(lambda: hard_deadline(embedded) != window_ends_at, "the runner has received the signal")
    after = time.monotonic()

    stop_at = hard_deadline(embedded) - Timing().hard_exit_seconds
    assert before + 30 <= stop_at <= after + 30
    assert embedded.statuses() == {"processing": 1}
    embedded.open_gate()
    wait_until(lambda: embedded.statuses() == {"done": 1}, "the job may finish")


@pytest.mark.parametrize("type_name", ["sleep_an_hour", "endless_async", "endless_thread"])
def test_a_job_that_outlives_the_stop_timeout_is_released(embedded: Installation, type_name: str) -> None:
    """The handler is interrupted long before the end of the window; the job costs no attempt."""
    embedded.timing = Timing(stop_seconds=0.5)
    [job_id] = embedded.enqueue(type_name, lane="import")
    embedded.start("dispatcher", **LONG_WINDOW, HANDLERS=handler_modules("misbehaving", "concurrent"))
    wait_until(lambda: embedded.is_running(job_id), "the handler runs")

    os.kill(embedded.runner_pids()[0], signal.SIGTERM)

    wait_until(lambda: embedded.job(job_id).claims == 2, "another runner continues with the job")
    job = embedded.job(job_id)
    assert (job.attempts, job.interruptions, job.last_error) == (1, 0, None)


def hard_deadline(installation: Installation) -> float:
    """Of the only runner: when it ends itself, even if the handler cannot be interrupted."""
    [page] = installation.status_pages()
    return page.hard_deadline


def stopped_batch(installation: Installation) -> list[int]:
    """One claim of three jobs: one that waits for the gate, and two after it."""
    return installation.enqueue("gated") + installation.enqueue("noop", count=2)


def start_and_wait(installation: Installation, **settings: str) -> StartedProcess:
    """A dispatcher whose runner is in the middle of its first job."""
    dispatcher = installation.start("dispatcher", **settings)
    installation.wait_for_gate()
    return dispatcher
