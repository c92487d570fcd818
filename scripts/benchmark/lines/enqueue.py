"""Enqueue one by one and many at a time, against bare INSERTs of the same columns."""

from collections.abc import Iterator

from scripts.benchmark.figures import Figure, Finding, Goal, alternately, at_least
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import Failed, Stage

ONE, MANY = 2_000, 100_000


def measure_one(lab: Lab) -> Iterator[Finding]:
    return _measure(lab, "one", lab.scaled(ONE), "enqueue {:,} one by one", at_least(0.8))


def measure_many(lab: Lab) -> Iterator[Finding]:
    return _measure(lab, "many", lab.scaled(MANY), "enqueue_many of {:,}", at_least(0.6))


def _measure(lab: Lab, how: str, jobs: int, name: str, goal: Goal) -> Iterator[Finding]:
    with lab.stage() as stage:
        lab.say(name.format(jobs))
        ours, theirs = alternately(
            lambda: _rate(stage, "produce", how, jobs), lambda: _rate(stage, "insert", how, jobs), lab.times
        )
    yield Figure(name.format(jobs), "jobs/s", tuple(ours), tuple(theirs), goal)


def _rate(stage: Stage, program: str, how: str, jobs: int) -> float:
    """Without the start of the program: a producer lives for longer than a job."""
    with stage.connect() as connection:
        stage.engine.empty(connection)
    stage.rest()
    seconds = float(stage.run("-m", f"scripts.benchmark.programs.{program}", how, str(jobs)).answer)
    if stage.value("SELECT COUNT(*) FROM mayfly_jobs") != jobs + 1:  # and the first, which opened the door
        raise Failed(f"{program} did not insert each of {jobs:,} jobs once.")
    return jobs / seconds
