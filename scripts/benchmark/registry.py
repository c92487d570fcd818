"""Every benchmark by its name, in the order of the report. A new one: a function in lines/, and a line here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts.benchmark.engines import ENGINES
from scripts.benchmark.lab import Measure
from scripts.benchmark.lines import (
    behind,
    drain,
    each,
    enqueue,
    idle,
    linger,
    memory,
    pages,
    profile,
    runners,
    schedules,
    size,
    views,
    waiting,
)

USUAL_TIMES = 3
START_SECONDS = 2.0  # of a database, whatever the scale


@dataclass(frozen=True)
class Line:
    """A benchmark, and about how many seconds it takes on each database at full scale, three times."""

    about: str
    measure: Measure
    seconds: Mapping[str, float]
    scales: bool = True  # its goal is one for full size only

    def estimate(self, engine: str, scale: float, times: int) -> float:
        return START_SECONDS + self.seconds[engine] * (scale if self.scales else 1) * times / USUAL_TIMES


def _on(mariadb: float, postgres: float, sqlite: float) -> Mapping[str, float]:
    return {"mariadb": mariadb, "postgres": postgres, "sqlite": sqlite}


LINES: dict[str, Line] = {
    "drain": Line("1,000,000 no-op jobs, against a bare loop", drain.measure, _on(660, 400, 260)),
    "each": Line('100,000 jobs with ack="each"', each.measure, _on(220, 250, 250)),
    "async": Line("500 jobs that wait, as coroutines", waiting.measure_async, _on(10, 5, 4)),
    "threads": Line("500 jobs that wait, in threads", waiting.measure_threads, _on(10, 5, 4)),
    "runners": Line("twenty runners: the last one's first claim", runners.measure, _on(14, 12, 9), scales=False),
    "idle": Line("CPU of a cycle with nothing to do", idle.measure, _on(6, 18, 4), scales=False),
    "linger": Line("from enqueue to start at 20 jobs/s, with LINGER", linger.measure, _on(310, 310, 310)),
    "behind": Line("1,000,000 jobs behind a key that is used up", behind.measure, _on(400, 300, 250)),
    "schedules": Line("62 schedules due in one minute", schedules.measure, _on(30, 30, 25), scales=False),
    "size": Line("claims and idle cycles at 10,000,000 rows", size.measure, _on(220, 160, 130)),
    "views": Line("what operators look at, at 10,000,000 rows", views.measure, _on(200, 150, 120)),
    "pages": Line("every page of the web console, at 10,000,000 rows", pages.measure, _on(220, 170, 140)),
    "enqueue": Line("2,000 jobs one by one", enqueue.measure_one, _on(20, 15, 8)),
    "enqueue_many": Line("100,000 jobs at once", enqueue.measure_many, _on(30, 25, 12)),
    "memory": Line("memory of a drain, and what is left", memory.measure, _on(80, 50, 40)),
    "profile": Line("where the time of a job goes", profile.measure, _on(150, 100, 70)),
}


@dataclass(frozen=True)
class Step:
    """One line on one database."""

    name: str
    engine: str
    line: Line = field(repr=False)


def steps(names: tuple[str, ...], engines: tuple[str, ...]) -> list[Step]:
    """In the order of the report, whatever the order in which they were asked for."""
    chosen = [name for name in LINES if not names or name in names]
    return [
        Step(name, engine, LINES[name]) for name in chosen for engine in ENGINES if not engines or engine in engines
    ]
