"""Types that nobody knows, and modules that cannot be imported: a broken deploy must not kill jobs."""

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import attempts, runners
from tests.process.installation import Installation


def test_a_type_that_nobody_knows_is_retried_and_then_dead(embedded: Installation) -> None:
    """A rolling deploy may bring its handler; after the last attempt the reason names the nearest type."""
    job_id = embedded.enqueue("sleeep", priority=0, max_attempts=2)[0]
    embedded.enqueue("sleep", '{"seconds": 0.1}', count=6)  # keeps a runner there until it is due again

    cycle = embedded.dispatch(BATCH_SIZE="1", MAX_WORKERS="1", BACKOFF_BASE="0.001")

    job = embedded.job(job_id)
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (job.status, job.attempts) == ("dead", 2)
    assert job.last_error == "no handler for type 'sleeep'. Did you mean 'sleep'?"
    assert [each.outcome for each in embedded.rows(select(attempts))] == ["failed", "failed"]
    assert embedded.log.count("no handler for type 'sleeep'") == 2


BREAKAGES = {
    "import": "import no_such_module",
    "duplicate": "from mayfly import handler\n@handler('noop')\ndef mine(job): ...",
}


@pytest.mark.parametrize("source", BREAKAGES.values(), ids=BREAKAGES)
def test_a_broken_module_costs_no_job_an_attempt(embedded: Installation, source: str) -> None:
    """While a module cannot be imported, unknown jobs are given back; known ones and other lanes go on."""
    (embedded.home / "billing.py").write_text(source)
    invoice = embedded.enqueue("invoice", lane="billing")[0]
    mate = embedded.enqueue("noop", lane="billing")[0]
    others = embedded.enqueue("noop", count=3)

    cycle = embedded.dispatch(HANDLERS="tests.basic_handlers,billing")

    job = embedded.job(invoice)
    assert (job.status, job.attempts, job.claims) == ("pending", 0, 1)
    assert {embedded.job(each).status for each in [mate, *others]} == {"done"}
    assert {each.lane: (each.ending, each.exit_code) for each in embedded.rows(select(runners))} == {
        "billing": ("error", 1),
        "default": ("ok", 0),
    }
    assert (cycle.returncode, cycle.stdout) == (1, "")
    assert "Runners: 2 started, of which 1 error." in cycle.stderr
    assert "ERROR: Handler module billing cannot be imported: " in embedded.log
    assert "failed with code 1" in embedded.log


def test_the_deploy_that_is_repaired_finds_its_jobs(embedded: Installation) -> None:
    """The cycle after the repair runs what was given back, with all its attempts."""
    module = embedded.home / "billing.py"
    module.write_text("import no_such_module")
    invoice = embedded.enqueue("invoice")[0]
    embedded.dispatch(HANDLERS="tests.basic_handlers,billing")
    module.write_text("from mayfly import handler\n@handler('invoice')\ndef invoice(job): return 'sent'\n")

    cycle = embedded.dispatch(HANDLERS="tests.basic_handlers,billing")

    job = embedded.job(invoice)
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (job.status, job.attempts, job.result) == ("done", 1, '"sent"')


@pytest.mark.parametrize("order", ["tests.basic_handlers,shop", "shop,tests.basic_handlers"])
def test_a_type_that_two_modules_declare_is_reported(embedded: Installation, order: str) -> None:
    """`mayfly doctor` names both modules and says what to do, in either order."""
    (embedded.home / "shop.py").write_text(
        "from mayfly import handler\n\n@handler('sleep')\ndef sleep(job):\n    pass\n"
    )

    report = embedded.run("mayfly", "doctor", HANDLERS=order).stdout

    assert "The handler for sleep (" in report
    assert ") is declared already, as " in report
    assert "tests.basic_handlers.sleep" in report
    assert "shop.sleep" in report
    assert ": rename one, or remove its module from HANDLERS." in report
