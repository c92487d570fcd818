"""Where the time of a job goes: database, Python, waiting; and within a runner: claim, run, settle."""

import json
from collections.abc import Callable, Iterator, Sequence

from scripts.benchmark.draining import PROCESSES, Drained, by_loop, by_mayfly, refill
from scripts.benchmark.figures import Figure, Finding, alternately
from scripts.benchmark.lab import Lab
from scripts.benchmark.stage import Stage

JOBS = 200_000
PROFILED_JOBS = 20_000
MICRO = 1_000_000


def measure(lab: Lab) -> Iterator[Finding]:
    jobs = lab.scaled(JOBS)
    runner_cpu: list[float] = []
    with lab.stage() as stage:

        def ours() -> Drained:
            drained = by_mayfly(lab, stage, jobs)
            runner_cpu.append(stage.value("SELECT SUM(cpu_ms) FROM mayfly_runners") / 1000)
            return drained

        mayfly, loop = alternately(ours, lambda: by_loop(lab, stage, jobs), lab.times)
        yield from _per_job(mayfly, loop, runner_cpu)
        yield from _within_a_runner(lab, stage)


def _per_job(mayfly: Sequence[Drained], loop: Sequence[Drained], runner_cpu: Sequence[float]) -> Iterator[Figure]:
    """Microseconds of each job. Waiting is what is left of the processes' time: for the database, disk and a core."""

    def both(name: str, seconds: Callable[[Drained], float]) -> Figure:
        ours, theirs = (tuple(seconds(run) / run.jobs * MICRO for run in runs) for runs in (mayfly, loop))
        return Figure(f"a job: {name}", "µs", ours, theirs)

    yield both("time of the whole run", lambda run: run.seconds)
    yield both("database CPU", lambda run: run.server_cpu_seconds)
    yield both("Python CPU", lambda run: run.cpu_seconds)
    outside = [(run.cpu_seconds - cpu) / run.jobs * MICRO for run, cpu in zip(mayfly, runner_cpu, strict=True)]
    yield Figure("a job: of it outside the runners", "µs", tuple(outside))
    yield both(f"waiting of {PROCESSES} processes", lambda run: run.seconds * PROCESSES - run.cpu_seconds)


def _within_a_runner(lab: Lab, stage: Stage) -> Iterator[Figure]:
    """Under cProfile, which makes Python slower: read the shares, not the times."""
    jobs = lab.scaled(PROFILED_JOBS)
    refill(lab, stage, jobs, "nothing")
    lab.say("one runner under cProfile")
    _ledgers, environment = stage.new_ledgers(jobs)
    spent = stage.run("-m", "scripts.benchmark.programs.profiled", settings=environment)
    shares: dict[str, float] = json.loads(spent.answer.splitlines()[-1])
    for part, share in shares.items():
        yield Figure(f"a runner's time: {part}", "%", (share * 100,))
