"""Pauses of lanes and types in real cycles: shown everywhere, and ended by an operator."""

import json

import pytest

from tests.process.installation import Installation, handler_modules


def run(installation: Installation, *arguments: str) -> str:
    """A `mayfly` command that succeeds."""
    ran = installation.run("mayfly", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_a_paused_lane_waits_and_other_lanes_run(installation: Installation) -> None:
    """In plan, log and summary; after it is resumed, the next cycle serves it."""
    waiting, other = installation.enqueue("noop", lane="mail")[0], installation.enqueue("noop")[0]

    paused = run(installation, "pause", "lane", "mail", "--reason", "the vendor is down")
    planned = installation.dispatch("--dry-run").stdout
    cycle = installation.dispatch()

    assert paused == "Paused lane mail.\n"
    assert "paused: the vendor is down\n" in planned
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (installation.job(waiting).status, installation.job(other).status) == ("pending", "done")
    assert "lane=mail running=0; cut by paused: the vendor is down" in installation.log
    assert "[DISPATCHER] Paused lanes: mail\n" in installation.log
    assert run(installation, "resume", "lane", "mail") == "Resumed lane mail.\n"
    assert run(installation, "resume", "lane", "mail") == "Lane mail was not paused.\n"
    installation.dispatch()
    assert installation.job(waiting).status == "done"


@pytest.mark.parametrize("handlers", [handler_modules(), handler_modules("concurrent")])
def test_jobs_of_a_paused_type_are_snoozed(installation: Installation, handlers: str) -> None:
    """The lane is served; no attempt is used, the row has the reason, and `resume` makes the job due."""
    waiting, other = installation.enqueue("sleep", '{"seconds": 0}')[0], installation.enqueue("noop")[0]
    run(installation, "pause", "type", "sleep", "--reason", "the vendor is down")

    cycle = installation.dispatch(HANDLERS=handlers)

    assert (cycle.returncode, cycle.stderr) == (0, "")
    row = installation.job(waiting)
    assert (row.status, row.attempts, row.started_at) == ("pending", 0, None)
    assert row.waiting_for == "type sleep is paused: the vendor is down"
    assert installation.job(other).status == "done"
    assert "Snoozed 1 job: type sleep is paused: the vendor is down" in installation.log
    assert installation.lane_lines()[-1]["snoozed"] == "1"
    assert run(installation, "resume", "type", "sleep") == "Resumed type sleep. 1 job due again.\n"
    installation.dispatch(HANDLERS=handlers)
    assert installation.job(waiting).status == "done"


@pytest.mark.parametrize("type_name", ["wait_async", "wait_thread"])
def test_a_paused_type_is_snoozed_in_a_concurrent_runner(embedded: Installation, type_name: str) -> None:
    """Before it gets a slot."""
    [job_id] = embedded.enqueue(type_name, '{"seconds": 0}')
    settings = {"HANDLERS": handler_modules("concurrent")}
    embedded.run("mayfly", "pause", "type", type_name, **settings)

    embedded.dispatch(**settings)

    row = embedded.job(job_id)
    assert (row.status, row.attempts, row.waiting_for) == ("pending", 0, f"type {type_name} is paused")


def test_the_pauses_are_listed(embedded: Installation) -> None:
    """As text and as JSON, or that nothing is paused."""
    nothing = run(embedded, "pauses")
    embedded.enqueue("noop", lane="mail")
    run(embedded, "pause", "lane", "mail", "--reason", "the vendor is down", "--until", "2099-05-04T12:00+02:00")
    run(embedded, "pause", "type", "noop")

    text, facts = run(embedded, "pauses"), json.loads(run(embedded, "pauses", "--json"))

    lane, of_type = facts
    assert nothing == "No lane or type is paused.\n"
    assert (lane["kind"], lane["name"], lane["reason"]) == ("lane", "mail", "the vendor is down")
    assert (lane["until"], of_type["until"]) == ("2099-05-04T10:00:00+00:00", None)
    assert text.splitlines()[0].endswith(" until 2099-05-04 10:00:00 UTC: the vendor is down")
    assert text.splitlines()[1].startswith("type noop  since ")


def test_pausing_an_unknown_name_is_a_warning(embedded: Installation) -> None:
    """The pause is valid: the lane may be created later."""
    embedded.enqueue("noop", lane="mail")

    lane = embedded.run("mayfly", "pause", "lane", "mial")
    of_type = embedded.run("mayfly", "pause", "type", "nope")

    assert lane.stderr == "warning: no lane 'mial' was found. Did you mean 'mail'?\n"
    assert of_type.stderr == "warning: no type 'nope' was found. Did you mean 'noop'?\n"
    assert (lane.returncode, of_type.returncode) == (0, 0)
    assert len(json.loads(run(embedded, "pauses", "--json"))) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("pause", "lane"), "Missing argument 'NAME'"),
        (("pause", "queue", "mail"), "'queue' is not one of 'lane', 'type'"),
        (("pause", "lane", "mail", "--until", "tomorrow"), "'tomorrow' must be a time with a zone"),
        (("pause", "lane", "mail", "--until", "2001-05-04T12:00Z"), "must be a time in the future"),
        (("pause", "type", "x" * 65), "must be text of 1 to 64 characters"),
        (("resume", "lane", ""), "must be text of 1 to 64 characters"),
    ],
)
def test_wrong_usage_is_an_error_message(embedded: Installation, arguments: tuple[str, ...], sentence: str) -> None:
    """With exit code 64."""
    ran = embedded.run("mayfly", *arguments)

    assert (ran.returncode, ran.stdout) == (64, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_new_lane_needs_no_registration(installation: Installation) -> None:
    """A job in an unknown lane is run by the next cycle, with the default settings."""
    [job_id] = installation.enqueue("noop", lane="brand-new")

    installation.dispatch()

    assert installation.job(job_id).status == "done"
