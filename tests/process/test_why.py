"""`mayfly why`, by somebody who looks at a real installation."""

import json

import pytest

from tests.process.installation import Installation


def why(installation: Installation, job_id: int, *arguments: str) -> str:
    ran = installation.run("mayfly", "why", str(job_id), *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_a_job_is_asked_about_from_its_enqueue_to_its_end(installation: Installation) -> None:
    """Nobody has run a cycle; then it is paused, then run."""
    [job_id] = installation.enqueue("noop", lane="mail")

    before = why(installation, job_id)
    installation.run("mayfly", "pause", "lane", "mail", "--reason", "the vendor is down")
    installation.dispatch()
    paused = json.loads(why(installation, job_id, "--json"))
    installation.run("mayfly", "resume", "lane", "mail")
    following = why(installation, job_id)
    installation.dispatch()
    after = why(installation, job_id)

    assert before.splitlines() == [
        f"Job {job_id} (noop, lane mail) is pending.",
        "  No cycle has run yet: is cron set up? See scripts/install-cron.",
    ]
    assert (paused["id"], paused["lane"], paused["status"]) == (job_id, "mail", "pending")
    assert [each["why"] for each in paused["reasons"]] == ["paused"]
    assert paused["reasons"][0]["text"].endswith(": the vendor is down.")
    assert following.splitlines()[1] == "  It is next: the next cycle will start a runner for it."
    assert after.splitlines()[1].startswith("  It is done since ")


def test_a_job_that_runs_says_on_which_host(embedded: Installation) -> None:
    """While it does."""
    [job_id] = embedded.enqueue("latch")
    cycle = embedded.start("dispatcher", HOST_NAME="web1")
    embedded.wait_for_latch()

    told = why(embedded, job_id)
    embedded.release_latch()
    cycle.wait(60)

    assert "  It is being processed by worker-" in told
    assert " on web1 since " in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Missing argument 'ID'"),
        (("twelve",), "'twelve' is not a valid integer"),
        (("0",), "0 is not in the range"),
        (("12",), "There is no job 12"),
    ],
)
def test_wrong_usage_is_a_sentence(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """And exit 64."""
    ran = embedded.run("mayfly", "why", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
