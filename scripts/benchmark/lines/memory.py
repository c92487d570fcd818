"""The memory of dispatcher and runners together while they drain, and what is left when they are done."""

from collections.abc import Iterator

from scripts.benchmark.draining import PROCESSES, refill
from scripts.benchmark.figures import Figure, Finding, Goal
from scripts.benchmark.lab import Lab
from scripts.benchmark.ledger import WIDTH
from scripts.benchmark.processes import family, proportional_memory, with_variable
from scripts.benchmark.stage import Stage
from scripts.benchmark.verify import check_once

JOBS = 200_000
MEGABYTE = 1_000_000


def measure(lab: Lab) -> Iterator[Finding]:
    with lab.stage() as stage:
        runs = [_drain(lab, stage, lab.scaled(JOBS)) for _ in range(lab.times)]
    peaks, left = (tuple(values) for values in zip(*runs, strict=True))
    name = f"memory of dispatcher and {PROCESSES} runners (PSS)"
    yield Figure(name, "MB", peaks, goal=Goal(at_most=150, of_ratio=False))
    yield Figure("processes left after exit", "", left, goal=Goal(at_most=0, of_ratio=False))


def _drain(lab: Lab, stage: Stage, jobs: int) -> tuple[float, float]:
    """The greatest sum that was seen, and how many processes outlived the dispatcher."""
    refill(lab, stage, jobs, "nothing")
    ledgers, environment = stage.new_ledgers(jobs)
    sums = [0]

    def look(_seconds: float, pid: int) -> None:
        """The pages of the ledger are the benchmark's own."""
        sums.append(proportional_memory(family(pid)) - ledgers.count() * WIDTH)

    lab.say("looking at the memory of a drain")
    stage.dispatch(environment, look)
    left = len(list(with_variable("MAYFLY_HOME", str(stage.home))))
    check_once(ledgers.ids(), range(1, jobs + 1))
    return max(sums) / MEGABYTE, float(left)
