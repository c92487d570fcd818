"""How long after the plan the last of twenty runners has made its first claim, and begins with it."""

from collections.abc import Iterator
from datetime import timedelta

from mayfly.db.dialects import utc_from_driver
from scripts.benchmark.draining import by_mayfly
from scripts.benchmark.figures import Figure, Finding, Goal, alternately
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
# What handlers import is the application's; it comes on top, once a lane.
PLAIN = "scripts.benchmark.jobs.nothing"
WITH_MODELS = f"{PLAIN},handlers"


def measure(lab: Lab) -> Iterator[Finding]:
    name = f"{RUNNERS} runners planned: first claim of the last"
    with lab.stage() as stage:
        plain, with_models = alternately(
            lambda: _last_claim_ms(lab, stage, PLAIN), lambda: _last_claim_ms(lab, stage, WITH_MODELS), lab.times
        )
        bare = tuple(_bare_ms(lab, stage) for _ in range(lab.times))
    yield Figure(name, "ms", tuple(plain), bare, goal=GOAL)
    yield Figure(f"{name}, handlers import pydantic", "ms", tuple(with_models), bare)


def _bare_ms(lab: Lab, stage: Stage) -> float:
    """The least that would do: fork as often, and let each connect and ask once."""
    lab.say(f"{RUNNERS} bare forks that connect")
    return float(stage.run("-m", "scripts.benchmark.programs.forks", str(RUNNERS)).answer) * 1000


def _last_claim_ms(lab: Lab, stage: Stage, handlers: str) -> float:
    """By the tables: `started_at` of each runner's first job less `planned_at` of its row.

    Not `locked_at`, which is read before the wait for SQLite's only write lock.
    """
    by_mayfly(lab, stage, JOBS, "nap", {"MAX_WORKERS": str(RUNNERS), "HANDLERS": handlers})
    database = stage.database()
    found = database.read(lambda connection: connection.execute(FIRST_CLAIMS).all())
    database.close()
    if len(found) < RUNNERS or any(claimed_at is None for _planned_at, claimed_at in found):
        raise Failed(f"Not each of {RUNNERS} runners made a claim.")
    waits = [utc_from_driver(claimed_at) - utc_from_driver(planned_at) for planned_at, claimed_at in found]
    return max(waits) / timedelta(milliseconds=1)
