"""`mayfly why` on a real installation."""

import json

import pytest

from mayfly.process import Timing
from tests.process.installation import Installation


def why(installation: Installation, job_id: int, *arguments: str) -> str:
    ran = installation.run("mayfly", "why", str(job_id), *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_the_reason_is_shown_from_enqueue_to_done(installation: Installation) -> None:
    """Before the first cycle, while paused, when resumed, and after the run."""
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
        "  No cycle has run yet: is cron set up? Run `mayfly cron install`.",
    ]
    assert (paused["id"], paused["lane"], paused["status"]) == (job_id, "mail", "pending")
    assert [each["why"] for each in paused["reasons"]] == ["paused"]
    assert paused["reasons"][0]["text"].endswith(": the vendor is down.")
    assert following.splitlines()[1] == "  It is next: the next cycle will start a runner for it."
    assert after.splitlines()[1].startswith("  Done since ")


def test_a_claimed_job_has_its_host(embedded: Installation) -> None:
    """With runner and time of the claim, before the first figures of the runner."""
    embedded.timing = Timing(figures_seconds=600)
    [job_id] = embedded.enqueue("gated")
    cycle = embedded.start("dispatcher", HOST_NAME="web1")
    embedded.wait_for_gate()

    shown = why(embedded, job_id)
    embedded.open_gate()
    cycle.wait(60)

    assert "  It was claimed by worker-" in shown
    assert " on web1 at " in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Missing argument 'ID'"),
        (("twelve",), "'twelve' is not a valid integer"),
        (("0",), "0 is not in the range"),
        (("12",), "There is no job 12"),
    ],
)
def test_wrong_usage_is_an_error_message(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """With exit code 64."""
    ran = embedded.run("mayfly", "why", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr
