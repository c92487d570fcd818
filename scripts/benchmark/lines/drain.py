"""Drain a million no-op jobs with default settings, against a bare five-process loop on the same table."""

from collections.abc import Iterator, Sequence

from scripts.benchmark.draining import Drained, by_loop, by_mayfly
from scripts.benchmark.figures import Curve, Figure, Finding, Goal, alternately, at_least
from scripts.benchmark.lab import Lab

JOBS = 1_000_000
RATIOS = {"mariadb": 0.85, "postgres": 0.85, "sqlite": 0.7}
CHART = "drain"
POINTS = 120


def measure(lab: Lab) -> Iterator[Finding]:
    jobs = lab.scaled(JOBS)
    with lab.stage() as stage:
        ours, theirs = alternately(lambda: by_mayfly(lab, stage, jobs), lambda: by_loop(lab, stage, jobs), lab.times)
    name = f"drain {jobs:,} jobs"
    rates, bare_rates = rates_of(ours), rates_of(theirs)
    yield Figure(name, "jobs/s", rates, bare_rates, at_least(RATIOS[lab.engine.name]))
    yield from _absolute(lab.engine.name, name, ours)
    yield Curve(CHART, lab.engine.title, "Mayfly", points_of(ours))
    yield Curve(CHART, lab.engine.title, "bare loop", points_of(theirs))


def _absolute(engine: str, name: str, ours: Sequence[Drained]) -> Iterator[Figure]:
    """On MariaDB all of it in one cycle of less than 55 s; on PostgreSQL faster than any other queue there."""
    seconds = tuple(each.seconds for each in ours)
    if engine == "mariadb":
        yield Figure(f"{name}: time", "s", seconds, goal=Goal(at_most=55, of_ratio=False))
        cycles = tuple(float(each.cycles) for each in ours)
        yield Figure(f"{name}: cycles", "", cycles, goal=Goal(at_most=1, of_ratio=False))
    elif engine == "postgres":
        yield Figure(f"{name}: speed", "jobs/s", rates_of(ours), goal=Goal(at_least=21_000, of_ratio=False))


def rates_of(runs: Sequence[Drained]) -> tuple[float, ...]:
    return tuple(each.rate for each in runs)


def points_of(runs: Sequence[Drained]) -> tuple[tuple[float, float], ...]:
    """Of the run in the middle; no more of them than can be seen."""
    middle = sorted(runs, key=lambda each: each.seconds)[len(runs) // 2].points
    step = -(-len(middle) // POINTS)
    return (*middle[:-1:step], middle[-1])
