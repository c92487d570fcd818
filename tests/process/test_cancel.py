"""Cancelling from the command line: pending jobs, and running handlers that check `job.cancelled`."""

import pytest

from tests.process.installation import Installation, handler_modules, wait_until

HANDLERS = {"HANDLERS": handler_modules("cancellation", "misbehaving")}


@pytest.mark.parametrize("type_name", ["wait_for_cancel", "wait_for_cancel_thread", "wait_for_cancel_async"])
def test_a_running_job_ends_when_its_handler_checks(installation: Installation, type_name: str) -> None:
    """In a plain function, a thread or a task: it is cancelled within the cycle."""
    [job_id] = installation.enqueue(type_name)
    cycle = installation.start("dispatcher", **HANDLERS)
    installation.wait_for_gate()

    requested = installation.run("mayfly", "cancel", str(job_id), "--reason", "a mistake")
    cycle.wait(60)

    assert (requested.returncode, requested.stdout) == (0, "0 jobs cancelled. 1 running job asked to stop.\n")
    row = installation.job(job_id)
    assert (row.status, row.last_error) == ("cancelled", "seen after a while")
    assert row.cancel_reason.endswith(": a mistake")
    assert f"Job {job_id} ({type_name}) attempt 1/5: cancelled: seen after a while" in installation.log


def test_a_job_that_ignores_the_request_is_done(embedded: Installation) -> None:
    """Its handler never checked."""
    [job_id] = embedded.enqueue("gated")
    cycle = embedded.start("dispatcher")
    embedded.wait_for_gate()

    embedded.run("mayfly", "cancel", str(job_id))
    embedded.open_gate()
    cycle.wait(60)

    row = embedded.job(job_id)
    assert (row.status, row.cancel_reason is None) == ("done", False)


@pytest.mark.parametrize("type_name", ["gated_failure", "gated_failure_async"])
def test_a_failed_job_with_a_cancellation_request_is_not_retried(installation: Installation, type_name: str) -> None:
    """The next claim settles it as cancelled, and its handler is not called."""
    [job_id] = installation.enqueue(type_name)
    cycle = installation.start("dispatcher", **HANDLERS)
    installation.wait_for_gate()
    installation.run("mayfly", "cancel", str(job_id), "--reason", "a mistake")
    installation.open_gate()
    cycle.wait(60)
    wait_until(lambda: _dispatched(installation, job_id), "the job is settled")

    row = installation.job(job_id)
    assert (row.status, row.attempts, row.claims) == ("cancelled", 1, 2)
    assert row.last_error.endswith(": a mistake")
    assert len((installation.home / "failed").read_text()) == 1


def _dispatched(installation: Installation, job_id: int) -> bool:
    """The backoff is short: if not this cycle, one of the next claims the job again."""
    installation.dispatch(**HANDLERS)
    return bool(installation.job(job_id).status != "pending")


# --- the command line -------------------------------------------------------------------------------------


def test_one_pending_job_is_cancelled_without_confirmation(embedded: Installation) -> None:
    """The row has user and reason; repeating the command changes nothing."""
    [job_id] = embedded.enqueue("noop")

    first, second = (embedded.run("mayfly", "cancel", str(job_id), "--reason", "a mistake") for _ in range(2))

    assert (first.returncode, first.stdout, first.stderr) == (0, "1 job cancelled.\n", "")
    assert second.stdout == "No matching jobs; nothing was changed.\n"
    assert embedded.job(job_id).last_error.startswith("cancelled by ")
    assert embedded.job(job_id).last_error.endswith(": a mistake")


def test_many_jobs_are_not_cancelled_without_confirmation(embedded: Installation) -> None:
    """Without a terminal, --yes is required; --dry-run counts."""
    embedded.enqueue("noop", count=3, group_key="campaign-7")

    asked = embedded.run("mayfly", "cancel", "--group", "campaign-7")
    counted = embedded.run("mayfly", "cancel", "--group", "campaign-7", "--dry-run")
    assert embedded.statuses() == {"pending": 3}
    done = embedded.run("mayfly", "cancel", "--group", "campaign-7", "--yes")

    assert asked.returncode == 64
    question = "3 jobs will be cancelled; running jobs are asked to stop. Continue?"
    assert f"{question} No terminal to ask on; use --yes." in asked.stderr
    assert counted.stdout == "3 jobs would be cancelled; nothing was changed.\n"
    assert (done.returncode, done.stdout) == (0, "3 jobs cancelled.\n")
    assert embedded.statuses() == {"cancelled": 3}


def test_filters_of_the_command_line_are_combined(embedded: Installation) -> None:
    """Lane, type, status and age."""
    embedded.enqueue("noop", lane="mail", count=2)
    embedded.enqueue("sleep", lane="mail")

    younger = embedded.run("mayfly", "cancel", "--lane", "mail", "--older-than", "2h", "--dry-run")
    done = embedded.run("mayfly", "cancel", "--lane", "mail", "--type", "noop", "--status", "pending", "--yes")

    assert younger.stdout == "0 jobs would be cancelled; nothing was changed.\n"
    assert done.stdout == "2 jobs cancelled.\n"
    assert embedded.statuses() == {"cancelled": 2, "pending": 1}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Select jobs by id, group, lane, type, error, age, text or payload field"),
        (("--yes",), "Select jobs by"),
        (("--status", "pending"), "Select jobs by"),
        (("--status", "done", "--lane", "x"), "'done' is not one of 'pending', 'processing'"),
        (("twelve",), "'twelve' is not a valid integer"),
        (("0",), "id=0: must be a positive integer"),
        (("--lane", "mail", "--older-than", "yesterday"), "'yesterday' is not a duration; write 90s, 5m, 2h or 1d"),
        (("--lane", "mail", "--older-than", "999999999d"), "within a hundred years"),
    ],
)
def test_wrong_usage_is_an_error_message(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """With exit code 64."""
    ran = embedded.run("mayfly", "cancel", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
