"""Workers are worth their number: the same time for five times the jobs, and no job twice."""

from datetime import timedelta

from sqlalchemy import func, select

from mayfly.schema import jobs, runners
from tests.process.installation import Installation

NAP = '{"seconds": 0.2}'
BATCH_SECONDS = 5 * 0.2  # what one worker needs for one batch


def test_the_time_follows_the_batches_a_worker_not_the_jobs(installation: Installation) -> None:
    """5 jobs on 1 worker take as long as 10 on 2 and 25 on 5, 50 on 5 twice that; 25 on 1 take five times that."""
    backlogs = {"five": 5, "ten": 10, "twenty-five": 25, "fifty": 50, "alone": 25}
    for lane, number in backlogs.items():
        installation.enqueue("sleep", NAP, count=number, lane=lane)

    cycle = installation.dispatch(LANES__ALONE__MAX_WORKERS="1")

    assert (cycle.returncode, installation.statuses()) == (0, {"done": sum(backlogs.values())})
    workers = {lane: len(workers_of(installation, lane)) for lane in backlogs}
    assert workers == {"five": 1, "ten": 2, "twenty-five": 5, "fifty": 5, "alone": 1}
    seconds = {lane: span(installation, lane) for lane in backlogs}
    alike, twice = (seconds["five"], seconds["ten"], seconds["twenty-five"]), seconds["fifty"]
    assert BATCH_SECONDS <= min(alike) <= max(alike) < 1.6 * min(alike), seconds
    assert 1.5 * min(alike) < twice < 3 * min(alike), seconds
    # About five. If any worker had twice its share it would be 2.5; two busy cores alone can make it 3.5.
    assert seconds["alone"] / seconds["twenty-five"] >= 3, seconds
    assert seconds["five"] < 2.5 * BATCH_SECONDS, seconds  # what a job costs besides its nap


def test_eight_runners_take_each_job_once(installation: Installation) -> None:
    """5,000 jobs at once: every one is claimed once, and no deadlock reaches a runner."""
    installation.enqueue("noop", count=5000)

    cycle = installation.dispatch(MAX_WORKERS="8")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert installation.statuses() == {"done": 5000}
    assert installation.rows(select(func.min(jobs.c.claims), func.max(jobs.c.claims))) == [(1, 1)]
    lives = installation.rows(select(runners))
    assert len(lives) >= 8
    assert sum(each.jobs_done for each in lives) == 5000


def workers_of(installation: Installation, lane: str) -> set[str]:
    return {row.worker_id for row in installation.rows(select(jobs.c.worker_id).where(jobs.c.lane == lane))}


def span(installation: Installation, lane: str) -> float:
    """Seconds from the lane's first claim to its last job's end."""
    query = select(jobs.c.locked_at, jobs.c.finished_at).where(jobs.c.lane == lane)
    rows = installation.rows(query)
    taken: timedelta = max(row.finished_at for row in rows) - min(row.locked_at for row in rows)
    return taken.total_seconds()
