"""Expired jobs in real cycles: plain functions, tasks and threads."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import jobs
from tests.process.installation import Installation, handler_modules, wait_until

HANDLERS = handler_modules("concurrent")


@pytest.mark.parametrize("kind", ["plain", "async", "thread"])
def test_an_expired_job_is_cancelled_and_logged(embedded: Installation, kind: str) -> None:
    """Other jobs run; the log has the reason, and the cycle counts it."""
    [other] = embedded.enqueue(f"wait_{kind}", '{"seconds": 0}')
    past = embedded.now() - timedelta(minutes=1)
    [late] = embedded.enqueue(f"wait_{kind}", '{"seconds": 0}', expires_at=past)
    [soon] = embedded.enqueue(f"wait_{kind}", '{"seconds": 0}', expires_at=past + timedelta(hours=1))

    cycle = embedded.dispatch(HANDLERS=HANDLERS)

    reason = f"expired: not started by {past:%Y-%m-%d %H:%M:%S} UTC"
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert [embedded.job(each).status for each in (other, late, soon)] == ["done", "cancelled", "done"]
    assert (embedded.job(late).attempts, embedded.job(late).last_error) == (0, reason)
    assert f"Job {late} (wait_{kind}) attempt 1/5: cancelled: {reason}" in embedded.log
    assert (embedded.lane_lines()[0]["done"], embedded.lane_lines()[0]["cancelled"]) == ("2", "1")


def test_a_job_expires_after_its_claim(embedded: Installation) -> None:
    """It is claimed in time, together with a job that runs first."""
    embedded.enqueue("gated")
    until = embedded.now() + timedelta(seconds=6)
    [late] = embedded.enqueue("noop", expires_at=until)
    cycle = embedded.start("dispatcher", MAX_WORKERS="1")
    embedded.wait_for_gate()
    wait_until(lambda: embedded.now() > until, "it has expired")
    embedded.open_gate()
    cycle.wait()

    [job] = embedded.rows(select(jobs).where(jobs.c.id == late))
    assert (job.status, job.attempts) == ("cancelled", 0)
    assert job.locked_at < until
