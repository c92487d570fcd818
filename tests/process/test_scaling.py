"""Workers are worth their number: the same time for five times the jobs, and no job twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select

from mayfly.schema import jobs, runners
from tests.process.installation import Installation

NAP = '{"seconds": 0.2}'
BATCH_SECONDS = 5 * 0.2  # what one worker needs for one batch
BACKLOGS = {"five": 5, "ten": 10, "twenty-five": 25, "fifty": 50, "alone": 25}  # lanes, and their jobs
WORKERS = {"five": 1, "ten": 2, "twenty-five": 5, "fifty": 5, "alone": 1}
TRIES = 3  # what else the machine does can only make a cycle slower, never faster


def test_the_time_follows_the_batches_a_worker_not_the_jobs(installation: Installation) -> None:
    """5 jobs on 1 worker take as long as 10 on 2 and 25 on 5, 50 on 5 twice that; 25 on 1 take five times that."""
    tried: list[Measured] = []
    while len(tried) < TRIES and not (tried and tried[-1].is_lawful):
        tried.append(measure(installation))

    assert tried[-1].is_lawful, tried


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


@dataclass(frozen=True)
class Measured:
    """What one cycle over all backlogs showed."""

    code: int
    done: bool
    workers: dict[str, int]
    seconds: dict[str, float]

    @property
    def is_lawful(self) -> bool:
        five, ten, twenty_five, fifty, alone = (self.seconds[lane] for lane in BACKLOGS)
        alike = (five, ten, twenty_five)
        return (
            (self.code, self.done, self.workers) == (0, True, WORKERS)
            and BATCH_SECONDS <= min(alike) <= max(alike) < 1.6 * BATCH_SECONDS
            and 1.5 * min(alike) < fifty < 3 * min(alike)
            and alone / twenty_five >= 3.5
        )


def measure(installation: Installation) -> Measured:
    installation.execute("DELETE FROM mayfly_jobs")
    for lane, number in BACKLOGS.items():
        installation.enqueue("sleep", NAP, count=number, lane=lane)
    cycle = installation.dispatch(LANES__ALONE__MAX_WORKERS="1")
    rows = {lane: installation.rows(select(jobs).where(jobs.c.lane == lane)) for lane in BACKLOGS}
    workers = {lane: len({row.worker_id for row in rows[lane]}) for lane in BACKLOGS}
    done = installation.statuses() == {"done": sum(BACKLOGS.values())}
    return Measured(cycle.returncode, done, workers, {lane: span(rows[lane]) for lane in BACKLOGS})


def span(rows: Sequence[Any]) -> float:
    """Seconds from a lane's first claim to its last job's end."""
    taken: timedelta = max(row.finished_at for row in rows) - min(row.locked_at for row in rows)
    return taken.total_seconds()
