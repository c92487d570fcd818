"""A missing integration in a real installation: what the runner, doctor and config make of it."""

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
def test_jobs_of_an_integration_that_is_off_are_cancelled(vendor: Installation, type_name: str) -> None:
    """By the first runner that meets them, however their handler would run; others of its lane go on."""
    job_id, other = vendor.enqueue(type_name, lane="vendor")[0], vendor.enqueue("noop", lane="vendor")[0]

    cycle = vendor.dispatch()

    job = vendor.job(job_id)
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (job.status, job.attempts) == ("cancelled", 0)
    assert job.last_error == "integration not configured: VENDOR_KEY"
    assert vendor.job(other).status == "done"


def test_once_it_is_set_jobs_are_run(vendor: Installation) -> None:
    """From the very next cycle on."""
    (vendor.home / ".env").write_text("VENDOR_KEY=s3cret\n")
    job_ids = [vendor.enqueue(each, lane="vendor")[0] for each in ("ask", "ask_aside")]

    vendor.dispatch()

    assert [vendor.job(each).result for each in job_ids] == ["6", "6"]


def test_operators_are_told(vendor: Installation) -> None:
    """By doctor what is off, by config what is set, and by neither any value."""
    off = vendor.run("mayfly", "doctor").stdout
    on = vendor.run("mayfly", "config", VENDOR_KEY="s3cret").stdout

    assert "off: VENDOR_KEY is not set: jobs of ask, ask_aside are cancelled." in off
    assert ["VENDOR_KEY", "***", "environment"] in [line.split() for line in on.splitlines()]
    assert "s3cret" not in on
