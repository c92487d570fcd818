"""Jobs that expire, in real cycles: plain ones, tasks and threads."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from mayfly.schema.metadata import jobs
from tests.process.installation import Installation, handler_modules, wait_until

HANDLERS = handler_modules("concurrent")


@pytest.mark.parametrize("kind", ["plain", "async", "thread"])
def test_what_came_too_late_is_cancelled_and_told(embedded: Installation, kind: str) -> None:
    """The jobs beside it run; the log has a line with the reason, and the cycle's figures count it."""
    [mate] = embedded.enqueue(f"wait_{kind}", '{"seconds": 0}')
    past = embedded.now() - timedelta(minutes=1)
    [late] = embedded.enqueue(f"wait_{kind}", '{"seconds": 0}', expires_at=past)
    [soon] = embedded.enqueue(f"wait_{kind}", '{"seconds": 0}', expires_at=past + timedelta(hours=1))

    cycle = embedded.dispatch(HANDLERS=HANDLERS)

    reason = f"expired: not started by {past:%Y-%m-%d %H:%M:%S} UTC"
    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert [embedded.job(each).status for each in (mate, late, soon)] == ["done", "cancelled", "done"]
    assert (embedded.job(late).attempts, embedded.job(late).last_error) == (0, reason)
    assert f"Job {late} (wait_{kind}) attempt 1/5: cancelled: {reason}" in embedded.log
    assert (embedded.lane_lines()[0]["done"], embedded.lane_lines()[0]["cancelled"]) == ("2", "1")


def test_a_job_expires_while_its_runner_holds_it(embedded: Installation) -> None:
    """Claimed in time, with the one before it, and too late when its turn comes."""
    embedded.enqueue("latch")
    until = embedded.now() + timedelta(seconds=6)
    [late] = embedded.enqueue("noop", expires_at=until)
    cycle = embedded.start("dispatcher", MAX_WORKERS="1")
    embedded.wait_for_latch()
    wait_until(lambda: embedded.now() > until, "it has expired")
    embedded.release_latch()
    cycle.wait()

    [job] = embedded.rows(select(jobs).where(jobs.c.id == late))
    assert (job.status, job.attempts) == ("cancelled", 0)
    assert job.locked_at < until
