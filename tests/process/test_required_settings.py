"""An integration that is not configured: what runner, doctor and config do."""

import pytest

from tests.process.installation import Installation

MODULE = """
from mayfly import handler, setting

@handler("ask", lane="vendor", requires=("VENDOR_KEY",))
def ask(job):
    return len(setting("VENDOR_KEY"))

@handler("ask_aside", lane="vendor", requires=("VENDOR_KEY",), threads=2)
def ask_aside(job):
    return len(setting("VENDOR_KEY"))
"""


@pytest.fixture
def vendor(embedded: Installation) -> Installation:
    (embedded.home / "vendor.py").write_text(MODULE)
    embedded.settings = {"HANDLERS": "tests.basic_handlers,vendor"}
    return embedded


@pytest.mark.parametrize("type_name", ["ask", "ask_aside"])
def test_jobs_of_an_unconfigured_integration_are_cancelled(vendor: Installation, type_name: str) -> None:
    """By the first runner that claims them, for every kind of handler; other jobs of the lane run."""
    job_id, other = vendor.enqueue(type_name, lane="vendor")[0], vendor.enqueue("noop", lane="vendor")[0]

    cycle = vendor.dispatch()

    job = vendor.job(job_id)
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (job.status, job.attempts) == ("cancelled", 0)
    assert job.last_error == "integration not configured: VENDOR_KEY"
    assert vendor.job(other).status == "done"


def test_jobs_of_a_configured_integration_are_run(vendor: Installation) -> None:
    """From the next cycle on."""
    (vendor.home / ".env").write_text("VENDOR_KEY=s3cret\n")
    job_ids = [vendor.enqueue(each, lane="vendor")[0] for each in ("ask", "ask_aside")]

    vendor.dispatch()

    assert [vendor.job(each).result for each in job_ids] == ["6", "6"]


def test_operators_see_what_is_not_configured(vendor: Installation) -> None:
    """In doctor; config shows what is set, and neither shows a value."""
    off = vendor.run("mayfly", "doctor").stdout
    on = vendor.run("mayfly", "config", VENDOR_KEY="s3cret").stdout

    assert "disabled: VENDOR_KEY is not set, so jobs of type ask, ask_aside are cancelled." in off
    assert ["VENDOR_KEY", "***", "environment"] in [line.split() for line in on.splitlines()]
    assert "s3cret" not in on
