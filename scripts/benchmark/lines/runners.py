"""How long after the plan the last of twenty runners has made its first claim, and begins with it."""

from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import func, select

from mayfly.schema import jobs, runners
from scripts.benchmark.draining import by_mayfly
from scripts.benchmark.figures import Figure, Finding, Goal
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import Failed, Stage

RUNNERS = 20
JOBS = RUNNERS * 5  # a first claim each
GOAL = Goal(at_most=150, of_ratio=False)


def measure(lab: Lab) -> Iterator[Finding]:
    with lab.stage() as stage:
        waits = tuple(_last_claim_ms(lab, stage) for _ in range(lab.times))
    yield Figure(f"{RUNNERS} runners planned: first claim of the last", "ms", waits, goal=GOAL)


def _last_claim_ms(lab: Lab, stage: Stage) -> float:
    """By the tables: `started_at` of each runner's first job less `planned_at` of its row.

    Not `locked_at`, which is read before the wait for SQLite's only write lock.
    """
    by_mayfly(lab, stage, JOBS, "nap", {"MAX_WORKERS": str(RUNNERS)})
    first_claims = (
        select(runners.c.planned_at, func.min(jobs.c.started_at).label("claimed_at"))
        .join(jobs, jobs.c.worker_id == runners.c.worker_id, isouter=True)
        .group_by(runners.c.worker_id, runners.c.planned_at)
        .order_by(runners.c.planned_at)
        .limit(RUNNERS)  # later plans of the same cycle fill slots that became free
    )
    database = stage.database()
    found = database.read(lambda connection: connection.execute(first_claims).all())
    database.close()
    if len(found) < RUNNERS or any(row.claimed_at is None for row in found):
        raise Failed(f"Not each of {RUNNERS} runners made a claim.")
    waits: list[timedelta] = [row.claimed_at - row.planned_at for row in found]
    return max(waits) / timedelta(milliseconds=1)
