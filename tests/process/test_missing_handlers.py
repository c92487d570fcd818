"""Unknown types and modules that cannot be imported: a broken deploy must not kill jobs."""

import signal
from datetime import timedelta

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import attempts, jobs, runners
from tests.factories import NOON
from tests.process.installation import Installation, wait_until

SOON = {"BACKOFF_BASE": "0.001"}  # seconds: a job without a handler is due again in the same cycle


def test_an_unknown_type_waits_and_uses_no_attempt(embedded: Installation) -> None:
    """A deploy may bring its handler. The log names the nearest type."""
    job_id = embedded.enqueue("sleeep", priority=0, max_attempts=1)[0]
    embedded.enqueue("sleep", '{"seconds": 0.1}', count=6)  # keeps a runner busy until the job is due again

    cycle = embedded.dispatch(BATCH_SIZE="1", MAX_WORKERS="1", **SOON)

    job = embedded.job(job_id)
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (job.status, job.attempts, job.waiting_for) == ("pending", 0, "no handler for type 'sleeep'")
    assert job.claims > 1
    assert job.last_error is None
    assert embedded.rows(select(attempts)) == []
    assert "WARNING: Snoozed 1 job: no handler for type 'sleeep'. Did you mean 'sleep'?" in embedded.log


def test_a_lingering_dispatcher_does_not_kill_jobs_of_a_new_type(embedded: Installation) -> None:
    """A job that is enqueued before its handler is deployed runs in the first cycle that has the handler."""
    new = embedded.home / "new.py"
    new.write_text("")
    dispatcher = embedded.start("dispatcher", HANDLERS="tests.basic_handlers,new", LINGER="55", **SOON)
    job_id = embedded.enqueue("invoice", max_attempts=1)[0]
    wait_until(lambda: embedded.job(job_id).claims > 5, "runners have claimed the job several times")
    dispatcher.send_signal(signal.SIGTERM)
    assert (dispatcher.communicate(timeout=60), dispatcher.returncode) == (("", ""), 0)
    new.write_text("from mayfly import handler\n@handler('invoice')\ndef invoice(job): return 'sent'\n")
    embedded.execute("UPDATE mayfly_jobs SET run_at = created_at")

    embedded.dispatch(HANDLERS="tests.basic_handlers,new")

    job = embedded.job(job_id)
    assert (job.status, job.attempts, job.result) == ("done", 1, '"sent"')


def test_an_unknown_type_is_dead_after_the_grace_period(embedded: Installation) -> None:
    """Counted from the first claim; the error names the nearest type."""
    [late] = embedded.enqueue("sleeep", unknown_since=embedded.now() - timedelta(minutes=59))
    [early] = embedded.enqueue("sleeep", unknown_since=embedded.now() - timedelta(minutes=61))

    cycle = embedded.dispatch()

    job = embedded.job(early)
    assert (cycle.returncode, embedded.job(late).status) == (0, "pending")
    assert (job.status, job.attempts) == ("dead", 0)
    reason = "no handler for type 'sleeep' for 60 min (UNKNOWN_TYPE_GRACE). Did you mean 'sleep'?"
    assert job.last_error == reason
    assert [each.error for each in embedded.rows(select(attempts))] == [reason]


BREAKAGES = {
    "import": "import no_such_module",
    "duplicate": "from mayfly import handler\n@handler('noop')\ndef mine(job): ...",
}


@pytest.mark.parametrize("source", BREAKAGES.values(), ids=BREAKAGES)
def test_a_broken_module_uses_no_attempts(embedded: Installation, source: str) -> None:
    """While it cannot be imported, unknown jobs wait, longer than the grace period; all others are run."""
    (embedded.home / "billing.py").write_text(source)
    invoice = embedded.enqueue("invoice", lane="billing", unknown_since=NOON)[0]
    known = embedded.enqueue("noop", lane="billing", count=9)
    others = embedded.enqueue("noop", count=3)

    cycle = embedded.dispatch(HANDLERS="tests.basic_handlers,billing", MAX_WORKERS="1")

    [job] = embedded.rows(select(jobs).where(jobs.c.id == invoice))
    assert (job.status, job.attempts, job.claims) == ("pending", 0, 1)
    assert job.waiting_for == "no handler for type 'invoice'; cannot be imported: billing"
    assert embedded.now() - job.unknown_since < timedelta(minutes=10)  # the grace period has not begun
    assert {embedded.job(each).status for each in [*known, *others]} == {"done"}
    assert {each.lane: (each.ending, each.exit_code) for each in embedded.rows(select(runners))} == {
        "billing": ("error", 1),
        "default": ("ok", 0),
    }
    assert (cycle.returncode, cycle.stdout) == (1, "")
    assert "Runners: 2 started, of which 1 error." in cycle.stderr
    assert "ERROR: Handler module billing cannot be imported: " in embedded.log
    assert "failed with code 1" in embedded.log


def test_the_reason_why_it_did_not_run_is_shown(embedded: Installation) -> None:
    """Also when it is due again, and where `why` itself can import the module."""
    module = embedded.home / "billing.py"
    module.write_text("import no_such_module")
    invoice = embedded.enqueue("invoice")[0]
    embedded.dispatch(HANDLERS="tests.basic_handlers,billing", BACKOFF_BASE="600")
    module.write_text("from mayfly import handler\n@handler('invoice')\ndef invoice(job): return 'sent'\n")
    waiting = embedded.run("mayfly", "why", str(invoice), HANDLERS="tests.basic_handlers,billing").stdout
    embedded.execute("UPDATE mayfly_jobs SET run_at = created_at")

    due = embedded.run("mayfly", "why", str(invoice), HANDLERS="tests.basic_handlers,billing").stdout

    reason = "no handler for type 'invoice'; cannot be imported: billing."
    assert f"  It waits: {reason} It is due in " in waiting
    assert f"  The last runner could not run it: {reason}" in due
    assert "It is next" not in due


def test_a_repaired_deploy_runs_the_waiting_jobs(embedded: Installation) -> None:
    """As soon as they are due, with all their attempts."""
    module = embedded.home / "billing.py"
    module.write_text("import no_such_module")
    invoice = embedded.enqueue("invoice")[0]
    embedded.dispatch(HANDLERS="tests.basic_handlers,billing", **SOON)
    module.write_text("from mayfly import handler\n@handler('invoice')\ndef invoice(job): return 'sent'\n")

    cycle = embedded.dispatch(HANDLERS="tests.basic_handlers,billing")

    job = embedded.job(invoice)
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (job.status, job.attempts, job.result) == ("done", 1, '"sent"')


@pytest.mark.parametrize("order", ["tests.basic_handlers,shop", "shop,tests.basic_handlers"])
def test_a_type_that_two_modules_declare_is_reported(embedded: Installation, order: str) -> None:
    """`mayfly doctor` names both modules and explains what to do, in either order."""
    (embedded.home / "shop.py").write_text(
        "from mayfly import handler\n\n@handler('sleep')\ndef sleep(job):\n    pass\n"
    )

    report = embedded.run("mayfly", "doctor", HANDLERS=order).stdout

    assert "The handler for sleep (" in report
    assert ") is declared already, as " in report
    assert "tests.basic_handlers.sleep" in report
    assert "shop.sleep" in report
    assert ": rename one, or remove its module from HANDLERS." in report
