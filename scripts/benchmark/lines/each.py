"""Drain jobs whose outcomes are committed one by one (ack="each"), against a bare loop that commits each."""

from collections.abc import Iterator

from scripts.benchmark.draining import by_loop, by_mayfly
from scripts.benchmark.figures import Figure, Finding, alternately, at_least
from scripts.benchmark.lab import Lab
from scripts.benchmark.lines.drain import rates_of

JOBS = 100_000


def measure(lab: Lab) -> Iterator[Finding]:
    jobs = lab.scaled(JOBS)
    with lab.stage() as stage:
        ours, theirs = alternately(
            lambda: by_mayfly(lab, stage, jobs, "nothing_each"),
            lambda: by_loop(lab, stage, jobs, "nothing_each", ack="each"),
            lab.times,
        )
    yield Figure(f'drain {jobs:,} jobs, ack="each"', "jobs/s", rates_of(ours), rates_of(theirs), at_least(0.85))
