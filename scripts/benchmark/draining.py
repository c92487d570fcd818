"""Drain a table of no-op jobs, by Mayfly and by a bare loop, and see that every one ran exactly once."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from scripts.benchmark.lab import Lab
from scripts.benchmark.processes import cpu_seconds
from scripts.benchmark.rows import Rows, insert_rows
from scripts.benchmark.stage import USUAL, Spent, Stage, Watch
from scripts.benchmark.verify import Ledgers, NotOnce, check_once

PROCESSES = 5  # MAX_WORKERS
UNDONE = "SELECT COUNT(*) FROM mayfly_jobs WHERE status <> 'done'"


@dataclass(frozen=True)
class Drained:
    """One run to the end."""

    jobs: int
    seconds: float
    cpu_seconds: float
    server_cpu_seconds: float
    cycles: int
    points: tuple[tuple[float, float], ...] = field(repr=False, default=())

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


def by_mayfly(
    lab: Lab, stage: Stage, jobs: int, type_name: str = "nothing", settings: Mapping[str, str] = USUAL
) -> Drained:
    """The whole life of `python -m dispatcher`; cycles follow each other until all is drained."""
    with _prepared(lab, stage, jobs, type_name, "Mayfly") as course:
        cycles = [course.dispatch(settings)]
        while stage.value(UNDONE):
            cycles.append(course.dispatch(settings))
    return course.drained(cycles)


def by_loop(lab: Lab, stage: Stage, jobs: int, type_name: str = "nothing", ack: str = "batch") -> Drained:
    """Five processes of a bare loop, interpreter start included."""
    with _prepared(lab, stage, jobs, type_name, "bare loop") as course:
        arguments = (str(PROCESSES), str(stage.engine.bare_batch), ack)
        spent = course.run("-m", "scripts.benchmark.programs.loop", *arguments)
    return course.drained([spent])


@dataclass
class Course:
    """What is being drained, seen through its ledgers."""

    lab: Lab
    stage: Stage
    who: str
    jobs: int
    ledgers: Ledgers
    environment: Mapping[str, str]
    points: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])
    passed: float = 0.0  # in cycles before this one
    server_cpu: float = 0.0

    def dispatch(self, settings: Mapping[str, str]) -> Spent:
        return self._after(self.stage.dispatch({**self.environment, **settings}, self._watch))

    def run(self, *arguments: str) -> Spent:
        return self._after(self.stage.run(*arguments, settings=self.environment, watch=self._watch))

    def drained(self, runs: list[Spent]) -> Drained:
        cpu = sum(each.cpu_seconds for each in runs)
        return Drained(self.jobs, self.passed, cpu, self.server_cpu, len(runs), tuple(self.points))

    @property
    def _watch(self) -> Watch:
        def look(seconds: float, _pid: int) -> None:
            done = self.ledgers.count()
            self.points.append((round(self.passed + seconds, 2), done))
            self.lab.say(f"{self.who}: {done:,} of {self.jobs:,} jobs done")

        return look

    def _after(self, spent: Spent) -> Spent:
        self.passed += spent.seconds
        self.points.append((round(self.passed, 2), self.ledgers.count()))
        return spent


@contextmanager
def _prepared(lab: Lab, stage: Stage, jobs: int, type_name: str, who: str) -> Iterator[Course]:
    """Fill, let the server come to rest, and afterwards hold ledgers and table against each other."""
    refill(lab, stage, jobs, type_name)
    ledgers, environment = stage.new_ledgers(jobs)
    course = Course(lab, stage, who, jobs, ledgers, environment)
    server = stage.engine.server_pid(stage.databases)
    before = cpu_seconds(server)
    lab.say(f"{who} drains {jobs:,} jobs")
    yield course
    course.server_cpu = cpu_seconds(server) - before
    lab.say(f"checking that {jobs:,} jobs ran once")
    check_once(ledgers.ids(), range(1, jobs + 1))
    undone = round(stage.value(UNDONE))  # whatever a guard gave back unstarted was claimed again, and ran once
    if undone:
        raise NotOnce(undone, 0, 0)


def refill(lab: Lab, stage: Stage, jobs: int, type_name: str) -> None:
    """Overdue since an hour ago: nothing waits for its time."""
    first_at = datetime.now(UTC) - timedelta(hours=1, milliseconds=jobs)
    lab.say(f"filling {jobs:,} rows")
    with stage.connect() as connection:
        stage.engine.empty(connection)
        insert_rows(
            connection, stage.engine, Rows(1, jobs, first_at, type_name=type_name), lambda _: lab.progress.tick()
        )
    lab.say("letting the database come to rest")
    stage.rest()
