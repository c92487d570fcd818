"""500 jobs that wait 100 ms each, with default settings: coroutines, and plain functions in threads."""

from collections.abc import Iterator

from scripts.benchmark.draining import by_mayfly
from scripts.benchmark.figures import Figure, Finding, Goal
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import JOBS as MODULES

JOBS = 500
GOAL = Goal(at_most=0.9, of_ratio=False)


def measure_async(lab: Lab) -> Iterator[Finding]:
    return _measure(lab, "wait_async", "waiting_async", "async def")


def measure_threads(lab: Lab) -> Iterator[Finding]:
    return _measure(lab, "wait_threads", "waiting_threads", "threads=100")


def _measure(lab: Lab, type_name: str, module: str, how: str) -> Iterator[Finding]:
    """A module each: one that cannot be imported yet must not take the other along."""
    jobs = lab.scaled(JOBS)
    modules = f"{MODULES},scripts.benchmark.jobs.{module}"
    with lab.stage() as stage:
        runs = [by_mayfly(lab, stage, jobs, type_name, {"HANDLERS": modules}) for _ in range(lab.times)]
    seconds = tuple(each.seconds for each in runs)
    yield Figure(f"{jobs:,} jobs that wait 100 ms each, {how}", "s", seconds, goal=GOAL)
