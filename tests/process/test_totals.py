"""Totals equal the jobs table, also after runners were killed."""

import os
import signal

import pytest

from mayfly.process.identity import start_time
from tests.process.installation import Installation, wait_until

TOTALS = (
    "SELECT outcome, SUM(jobs) AS jobs FROM (SELECT outcome, jobs FROM mayfly_counters"
    " UNION ALL SELECT outcome, jobs FROM mayfly_totals WHERE worker_id > '') AS counted"
    " WHERE outcome IN ('done', 'dead', 'cancelled') GROUP BY outcome"
)


@pytest.mark.every_database
@pytest.mark.parametrize("victim", ["runner", "dispatcher"])
def test_jobs_settled_one_by_one_are_counted_after_a_kill(installation: Installation, victim: str) -> None:
    """ack="each" writes totals later: jobs that a killed runner had not added yet are counted."""
    installation.enqueue("ack_each", count=7)
    installation.enqueue("gated")
    cycle = installation.start("dispatcher", MAX_WORKERS="1", BATCH_SIZE="10")
    installation.wait_for_gate()
    [runner] = installation.runner_pids()

    os.kill(runner if victim == "runner" else cycle.pid, signal.SIGKILL)
    wait_until(lambda: start_time(runner) is None, "the runner is dead")
    installation.open_gate()
    cycle.communicate()
    installation.dispatch()

    done = installation.statuses()["done"]  # the gated job may wait for its retry
    assert done >= 7
    assert totals(installation) == {"done": done}


def totals(installation: Installation) -> dict[str, int]:
    return {row.outcome: int(row.jobs) for row in installation.rows(TOTALS)}
