"""How long after the plan the last of twenty runners has made its first claim, and begins with it."""

from collections.abc import Iterator
from datetime import timedelta

from mayfly.dialect import utc_from_driver
from scripts.benchmark.draining import by_mayfly
from scripts.benchmark.figures import Figure, Finding, Goal
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import Failed, Stage

RUNNERS = 20
JOBS = RUNNERS * 5  # a first claim each
# Later plans of the same cycle fill slots that became free: they are left out.
FIRST_CLAIMS = (
    "SELECT planned_at, MIN(started_at) FROM mayfly_runners LEFT JOIN mayfly_jobs USING (worker_id)"
    f" GROUP BY worker_id, planned_at ORDER BY planned_at LIMIT {RUNNERS}"
)
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
    database = stage.database()
    found = database.read(lambda connection: connection.execute(FIRST_CLAIMS).all())
    database.close()
    if len(found) < RUNNERS or any(claimed_at is None for _planned_at, claimed_at in found):
        raise Failed(f"Not each of {RUNNERS} runners made a claim.")
    waits = [utc_from_driver(claimed_at) - utc_from_driver(planned_at) for planned_at, claimed_at in found]
    return max(waits) / timedelta(milliseconds=1)
