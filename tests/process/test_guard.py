"""The end of a runner's window, and handlers that use signals themselves."""

from sqlalchemy import select

from mayfly.process import Timing
from mayfly.schema.metadata import runners
from tests.process.installation import Installation

HANDLERS = {"HANDLERS": "tests.process.alarms,tests.process.sample_handlers.misbehaving"}
SHORT_WINDOW = {"WORKER_TIMEOUT": "2", "MAX_WORKERS": "1"}
ONE_PLAN = Timing(min_window_seconds=60)  # the rest of a window is not used for another plan


def test_a_backlog_is_not_a_timeout(embedded: Installation) -> None:
    """At the end of the window the running job finishes, nothing is interrupted, and the exit code is 0."""
    embedded.timing = ONE_PLAN._replace(finish_seconds=20)
    embedded.enqueue("short_sleep", count=1000)

    cycle = embedded.dispatch(**HANDLERS, **SHORT_WINDOW)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert "backlog remains" in embedded.log
    assert embedded.statuses().keys() == {"done", "pending"}
    assert embedded.rows("SELECT id FROM mayfly_jobs WHERE interruptions > 0") == []
    assert [(row.ending, row.exit_code) for row in embedded.rows(select(runners))] == [("ok", 0)]


def test_an_interrupted_job_is_a_timeout_after_a_second(embedded: Installation) -> None:
    """It is interrupted at the end of the window, and the exit code is 2."""
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=20)
    job_id = embedded.enqueue("sleep_an_hour")[0]

    cycle = embedded.dispatch(**HANDLERS, **SHORT_WINDOW)

    assert cycle.returncode == 2
    assert [(row.ending, row.exit_code) for row in embedded.rows(select(runners))] == [("timeout", 2)]
    assert embedded.job(job_id).last_error.startswith("timed out after 2.")


def test_an_immediately_interrupted_job_is_no_timeout(embedded: Installation) -> None:
    """It had started too late: it is released, and the exit code is 0."""
    embedded.timing = ONE_PLAN._replace(finish_seconds=0.0)
    embedded.enqueue("sleep", '{"seconds": 0.5}', count=20)

    cycle = embedded.dispatch(HANDLERS="tests.basic_handlers", **SHORT_WINDOW)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert [row.attempts for row in embedded.rows("SELECT attempts FROM mayfly_jobs WHERE interruptions > 0")] == [0]
    assert [(row.ending, row.exit_code) for row in embedded.rows(select(runners))] == [("ok", 0)]


def test_an_unhandled_alarm_fails_the_job(embedded: Installation) -> None:
    """It uses an attempt, and the error explains what to do; the runner continues with the next job."""
    [failing] = embedded.enqueue("alarm_without_handler", max_attempts=1)
    [next_job] = embedded.enqueue("short_sleep")

    cycle = embedded.dispatch(**HANDLERS, MAX_WORKERS="1")

    assert cycle.returncode == 0
    job = embedded.job(failing)
    assert (job.status, job.attempts, job.crashes, job.interruptions) == ("dead", 1, 0, 0)
    assert "UnhandledAlarm: SIGALRM arrived and nothing handled it" in job.last_error
    assert embedded.job(next_job).status == "done"
    assert len(embedded.rows(select(runners))) == 1


def test_a_handler_may_use_sigalrm(embedded: Installation) -> None:
    """The guard does not use it: only the handler's function is called."""
    [job_id] = embedded.enqueue("alarm_with_handler")

    cycle = embedded.dispatch(**HANDLERS)

    job = embedded.job(job_id)
    assert (cycle.returncode, job.status, job.result) == (0, "done", '"elapsed"')


def test_signal_handlers_and_alarms_end_with_their_job(embedded: Installation) -> None:
    """The next job in the runner sees neither, and the guard still interrupts the one after it."""
    embedded.timing = ONE_PLAN._replace(hard_exit_seconds=20)
    embedded.enqueue("alarm_left_behind")
    [next_job] = embedded.enqueue("sleep_past_an_alarm")
    [last_job] = embedded.enqueue("sleep_an_hour")

    cycle = embedded.dispatch(**HANDLERS, **SHORT_WINDOW | {"WORKER_TIMEOUT": "3"})

    assert cycle.returncode == 2
    assert embedded.job(next_job).result == '"restored"'
    assert f"interrupted job {last_job} (sleep_an_hour)" in embedded.log
    assert len(embedded.rows(select(runners))) == 1
