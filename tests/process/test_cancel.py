"""Cancelling in real processes: by the command line, jobs that wait and handlers that run and look."""

import pytest

from tests.process.installation import Installation, handler_modules, wait_until

HANDLERS = {"HANDLERS": handler_modules("cancellation", "misbehaving")}


@pytest.mark.parametrize("type_name", ["patient", "patient_thread", "patient_async"])
def test_a_running_job_ends_when_its_handler_looks(installation: Installation, type_name: str) -> None:
    """Wherever its handler runs: told by another process, it ends as cancelled within the cycle."""
    [job_id] = installation.enqueue(type_name)
    cycle = installation.start("dispatcher", **HANDLERS)
    installation.wait_for_latch()

    told = installation.run("mayfly", "cancel", str(job_id), "--reason", "a mistake")
    cycle.wait(60)

    assert (told.returncode, told.stdout) == (0, "0 jobs cancelled. 1 running job asked to stop.\n")
    row = installation.job(job_id)
    assert (row.status, row.last_error) == ("cancelled", "seen after a while")
    assert row.cancel_reason.endswith(": a mistake")
    assert f"Job {job_id} ({type_name}) attempt 1/5: cancelled: seen after a while" in installation.log


def test_a_job_that_ends_all_the_same_is_done(embedded: Installation) -> None:
    """It was told, and did not look."""
    [job_id] = embedded.enqueue("latch")
    cycle = embedded.start("dispatcher")
    embedded.wait_for_latch()

    embedded.run("mayfly", "cancel", str(job_id))
    embedded.release_latch()
    cycle.wait(60)

    row = embedded.job(job_id)
    assert (row.status, row.cancel_reason is None) == ("done", False)


@pytest.mark.parametrize("type_name", ["stumble_once_told", "stumble_async"])
def test_a_told_job_that_fails_is_not_run_again(installation: Installation, type_name: str) -> None:
    """Claimed for another try, it is settled as cancelled, and its handler is not called."""
    [job_id] = installation.enqueue(type_name)
    cycle = installation.start("dispatcher", **HANDLERS)
    installation.wait_for_latch()
    installation.run("mayfly", "cancel", str(job_id), "--reason", "a mistake")
    installation.release_latch()
    cycle.wait(60)
    wait_until(lambda: _dispatched(installation, job_id), "the job is settled")

    row = installation.job(job_id)
    assert (row.status, row.attempts, row.claims) == ("cancelled", 1, 2)
    assert row.last_error.endswith(": a mistake")
    assert len((installation.home / "stumbled").read_text()) == 1


def _dispatched(installation: Installation, job_id: int) -> bool:
    """The backoff is short: one of the next cycles claims it again, if the first has not."""
    installation.dispatch(**HANDLERS)
    return bool(installation.job(job_id).status != "pending")


# --- the command line -------------------------------------------------------------------------------------


def test_one_waiting_job_is_cancelled_without_a_question(embedded: Installation) -> None:
    """The row says by whom and why; a second time there is nothing to do."""
    [job_id] = embedded.enqueue("noop")

    first, second = (embedded.run("mayfly", "cancel", str(job_id), "--reason", "a mistake") for _ in range(2))

    assert (first.returncode, first.stdout, first.stderr) == (0, "1 job cancelled.\n", "")
    assert second.stdout == "No unfinished job was found; nothing was changed.\n"
    assert embedded.job(job_id).last_error.startswith("cancelled by ")
    assert embedded.job(job_id).last_error.endswith(": a mistake")


def test_many_are_not_cancelled_where_nobody_can_answer(embedded: Installation) -> None:
    """Not before --yes; --dry-run counts."""
    embedded.enqueue("noop", count=3, group_key="campaign-7")

    asked = embedded.run("mayfly", "cancel", "--group", "campaign-7")
    counted = embedded.run("mayfly", "cancel", "--group", "campaign-7", "--dry-run")
    assert embedded.statuses() == {"pending": 3}
    done = embedded.run("mayfly", "cancel", "--group", "campaign-7", "--yes")

    assert asked.returncode == 64
    assert "Cancel 3 jobs? No terminal to ask on; use --yes." in asked.stderr
    assert counted.stdout == "3 jobs would be cancelled; nothing was changed.\n"
    assert (done.returncode, done.stdout) == (0, "3 jobs cancelled.\n")
    assert embedded.statuses() == {"cancelled": 3}


def test_a_filter_of_the_command_line_means_what_it_says(embedded: Installation) -> None:
    """Lane, type, status and age together."""
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
        ((), "Select jobs by id, group, lane, type, error or age"),
        (("--yes",), "Select jobs by"),
        (("--status", "pending"), "Select jobs by"),
        (("--status", "done", "--lane", "x"), "'done' is not one of 'pending', 'processing'"),
        (("twelve",), "'twelve' is not a valid integer"),
        (("0",), "id=0: must be a positive integer"),
        (("--lane", "mail", "--older-than", "yesterday"), "'yesterday' is not a duration; write 90s, 5m, 2h or 1d"),
        (("--lane", "mail", "--older-than", "999999999d"), "within a hundred years"),
    ],
)
def test_wrong_usage_is_a_sentence(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """And exit 64."""
    ran = embedded.run("mayfly", "cancel", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
