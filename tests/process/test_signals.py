"""SIGTERM and SIGINT: nobody starts anything more, what runs may finish, the rest goes back unspent."""

import os
import signal

from sqlalchemy import select

from mayfly.schema.metadata import cycles, jobs, runners
from tests.process.installation import Installation, StartedProcess, wait_until


def test_a_dispatcher_that_is_stopped_gives_jobs_back(installation: Installation) -> None:
    """The running job is finished, the others of its batch are as if never claimed, the summary is written."""
    ids = stopped_batch(installation)
    dispatcher = start_and_wait(installation)

    dispatcher.send_signal(signal.SIGTERM)
    wait_until(lambda: "Received SIGTERM: stopping" in installation.log, "the dispatcher has told its runner")
    installation.release_latch()

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
    """An impatient operator still gets an orderly end; a lane that waits for a slot is not started any more."""
    ids = stopped_batch(embedded)
    waiting = embedded.enqueue("noop", lane="waiting")
    dispatcher = start_and_wait(embedded, HOST_MAX_WORKERS="1")

    dispatcher.send_signal(signal.SIGINT)
    wait_until(lambda: "Received SIGINT: stopping" in embedded.log, "the dispatcher has told its runner")
    dispatcher.send_signal(signal.SIGINT)
    dispatcher.send_signal(signal.SIGTERM)
    embedded.release_latch()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    statuses = {row.id: row.status for row in embedded.rows(select(jobs))}
    assert [statuses[each] for each in [*ids, *waiting]] == ["done", "pending", "pending", "pending"]
    assert embedded.log.count("Received") == 2  # the dispatcher once, the runner once
    assert embedded.log.count("Dispatch Summary:") == 1


def test_ctrl_c_reaches_the_whole_foreground_and_harms_nobody(embedded: Installation) -> None:
    """SIGINT to dispatcher and runner at once, as a terminal sends it, is the same as to the dispatcher."""
    ids = stopped_batch(embedded)
    dispatcher = start_and_wait(embedded)

    for pid in (dispatcher.pid, *embedded.runner_pids()):
        os.kill(pid, signal.SIGINT)
    wait_until(lambda: "Received SIGINT: stopping" in embedded.log, "the dispatcher has told its runner")
    embedded.release_latch()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    statuses = {row.id: row.status for row in embedded.rows(select(jobs))}
    assert [statuses[each] for each in ids] == ["done", "pending", "pending"]


def test_a_stopped_runner_interrupts_a_long_job_only_at_the_guard(embedded: Installation) -> None:
    """Until then the job may finish; then it is released, for it came late and did not have the whole window."""
    embedded.enqueue("sleep", '{"seconds": 1}')
    job_id = embedded.enqueue("oversleep")[0]
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
    assert f"Time is up: interrupted job {job_id} (oversleep)" in embedded.log


def test_a_runner_that_is_stopped_alone_ends_well(embedded: Installation) -> None:
    """Its job is finished, the rest of its batch goes to the next runner of the same cycle."""
    ids = stopped_batch(embedded)
    dispatcher = start_and_wait(embedded)
    runner = embedded.runner_pids()[0]

    os.kill(runner, signal.SIGTERM)
    embedded.release_latch()

    assert (dispatcher.communicate(), dispatcher.returncode) == (("", ""), 0)
    assert [embedded.job(each).claims for each in ids] == [1, 2, 2]
    assert embedded.statuses() == {"done": 3}
    assert [row.ending for row in embedded.rows(select(runners))] == ["ok", "ok"]
    assert "Received SIGTERM: claiming no more jobs" in embedded.log


def stopped_batch(installation: Installation) -> list[int]:
    """One claim of three: a job that waits to be told, and two that come after it."""
    return installation.enqueue("latch") + installation.enqueue("noop", count=2)


def start_and_wait(installation: Installation, **settings: str) -> StartedProcess:
    """A dispatcher whose runner is in the middle of its first job."""
    dispatcher = installation.start("dispatcher", **settings)
    installation.wait_for_latch()
    return dispatcher
