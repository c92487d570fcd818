"""Five times the workers run five times the jobs, and no job twice."""

import pytest
from sqlalchemy import func, select

from mayfly.schema.metadata import jobs, runners
from tests.process.installation import Installation, wait_until

BATCH = 5
# Lanes with their number of jobs; those of one cycle run concurrently.
CYCLES = ({"five": 5, "ten": 10, "twenty-five": 25}, {"fifty": 50, "alone": 25})
WORKERS = {"five": 1, "ten": 2, "twenty-five": 5, "fifty": 5, "alone": 1}


def test_all_workers_run_a_batch_at_the_same_time(installation: Installation) -> None:
    """5 jobs on 1 worker take as long as 10 on 2 and 25 on 5: each runs one batch, all concurrently.

    With more jobs, 50 on 5 or 25 on 1, each worker starts with a batch, and no other worker is started.
    """
    for backlogs in CYCLES:
        for lane, number in backlogs.items():
            installation.enqueue("gated", count=number, lane=lane)
        cycle = installation.start("dispatcher", LANES__ALONE__MAX_WORKERS="1")
        expected = {lane: [BATCH] * WORKERS[lane] for lane in backlogs}
        wait_until(lambda: batches(installation) == expected, f"all run at once: {expected}")  # noqa: B023
        installation.open_gate()

        assert (cycle.communicate(), cycle.returncode) == (("", ""), 0)
        (installation.home / "go").unlink()

    assert installation.statuses() == {"done": sum(number for backlogs in CYCLES for number in backlogs.values())}
    ended = installation.rows(select(runners))
    assert {lane: sum(each.lane == lane for each in ended) for lane in WORKERS} == WORKERS
    for lane in ("five", "ten", "twenty-five"):
        assert {each.jobs_done for each in ended if each.lane == lane} == {BATCH}


def batches(installation: Installation) -> dict[str, list[int]]:
    """By lane, the number of jobs that each of its workers holds now."""
    query = select(jobs.c.lane, func.count().label("number")).where(jobs.c.status == "processing")
    found = installation.rows(query.group_by(jobs.c.lane, jobs.c.worker_id))
    return {lane: [row.number for row in found if row.lane == lane] for lane in {row.lane for row in found}}


@pytest.mark.every_database
def test_eight_runners_take_each_job_once(installation: Installation) -> None:
    """5,000 jobs at once: each is claimed once, and no deadlock reaches a runner."""
    installation.enqueue("noop", count=5000)

    cycle = installation.dispatch(MAX_WORKERS="8")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert installation.statuses() == {"done": 5000}
    assert installation.rows(select(func.min(jobs.c.claims), func.max(jobs.c.claims))) == [(1, 1)]
    ended = installation.rows(select(runners))
    assert len(ended) >= 8
    assert sum(each.jobs_done for each in ended) == 5000
