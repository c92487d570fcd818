"""From enqueue to the start of the handler at 20 jobs a second, over five minutes with a new dispatcher in each."""

from collections.abc import Iterator
from statistics import quantiles

from scripts.benchmark.figures import Figure, Finding, Goal
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import JOBS, Failed, Stage

MINUTES = 5
SECONDS = 60 * MINUTES
LEAST_SECONDS = 10  # below that, dispatchers would have to be started faster than they are imported
RATE = 20
SETTINGS = {"LINGER": "55", "HANDLERS": f"{JOBS},scripts.benchmark.jobs.waited"}


def measure(lab: Lab) -> Iterator[Finding]:
    """One run, however often others are repeated: it has thousands of values."""
    seconds = lab.scaled(SECONDS, LEAST_SECONDS)
    with lab.stage() as stage:
        lab.say(f"{RATE} jobs/s for {seconds} s, {MINUTES} dispatchers")
        flow = stage.run(
            "-m",
            "scripts.benchmark.programs.flow",
            str(seconds),
            str(seconds / MINUTES),
            str(RATE),
            settings=SETTINGS,
        )
        waits = _waits(stage)
    percentiles = quantiles(waits, n=100, method="inclusive")
    name = f"wait at {RATE} jobs/s for {seconds} s"
    yield Figure(f"{name}: median", "s", (percentiles[49],), goal=Goal(at_most=0.3, of_ratio=False))
    yield Figure(f"{name}: 99th percentile", "s", (percentiles[98],), goal=Goal(at_most=1, of_ratio=False))
    yield Figure(f"{name}: CPU, the producer's included", "s", (flow.cpu_seconds,))


def _waits(stage: Stage) -> list[float]:
    rows = stage.rows("SELECT status, result FROM mayfly_jobs")
    if any(status != "done" for status, _ in rows):
        raise Failed("Not every job was run.")
    return [float(result) for _, result in rows]
