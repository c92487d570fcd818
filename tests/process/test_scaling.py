"""Workers are worth their number: the same time for five times the jobs, and no job twice."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from tests.process.installation import Installation
from tests.tables import jobs, runners

NAP = '{"seconds": 0.2}'
BATCH_SECONDS = 5 * 0.2  # what one worker needs for one batch
TRIES = 3  # what else the machine does can only make a cycle slower: the best time of each lane counts

# Lanes, each with its jobs; those of one cycle run side by side.
CYCLES = ({"five": 5, "ten": 10, "twenty-five": 25}, {"fifty": 50, "alone": 25})
WORKERS = {"five": 1, "ten": 2, "twenty-five": 5, "fifty": 5, "alone": 1}


def test_the_time_follows_the_batches_a_worker_not_the_jobs(installation: Installation) -> None:
    """5 jobs on 1 worker take as long as 10 on 2 and 25 on 5, 50 on 5 twice that; 25 on 1 take five times that."""
    best = run_backlogs(installation)
    for _ in range(TRIES - 1):
        if not is_lawful(best):
            again = run_backlogs(installation)
            best = {lane: min(best[lane], again[lane]) for lane in best}

    assert is_lawful(best), best


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


def is_lawful(seconds: Mapping[str, float]) -> bool:
    alike = (seconds["five"], seconds["ten"], seconds["twenty-five"])
    return (
        BATCH_SECONDS <= min(alike) <= max(alike) < 1.6 * BATCH_SECONDS
        and 1.5 * min(alike) < seconds["fifty"] < 3 * min(alike)
        and seconds["alone"] / seconds["twenty-five"] >= 3.5
    )


def run_backlogs(installation: Installation) -> dict[str, float]:
    """The seconds that each lane took, every job of it done, by exactly the workers that its backlog asks for."""
    installation.execute("DELETE FROM mayfly_jobs")
    for backlogs in CYCLES:
        for lane, number in backlogs.items():
            installation.enqueue("sleep", NAP, count=number, lane=lane)
        assert installation.dispatch(LANES__ALONE__MAX_WORKERS="1").returncode == 0
    rows = {lane: installation.rows(select(jobs).where(jobs.c.lane == lane)) for lane in WORKERS}
    assert installation.statuses() == {"done": sum(len(each) for each in rows.values())}
    assert {lane: len({row.worker_id for row in rows[lane]}) for lane in rows} == WORKERS
    return {lane: span(rows[lane]) for lane in rows}


def span(rows: Sequence[Any]) -> float:
    """Seconds from a lane's first claim to its last job's end."""
    taken: timedelta = max(row.finished_at for row in rows) - min(row.locked_at for row in rows)
    return taken.total_seconds()
