"""Every benchmark by its name, in the order of the report. A new one: a function in lines/, and a line here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scripts.benchmark.engines import ENGINES
from scripts.benchmark.lab import Measure
from scripts.benchmark.lines import drain, each, enqueue, idle, memory, profile, runners, size, waiting

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


def _all(seconds: float) -> Mapping[str, float]:
    return dict.fromkeys(ENGINES, seconds)


LINES: dict[str, Line] = {
    "drain": Line(
        "1,000,000 no-op jobs, against a bare loop", drain.measure, {"mariadb": 600, "postgres": 400, "sqlite": 180}
    ),
    "each": Line('20,000 jobs with ack="each"', each.measure, _all(60)),
    "async": Line("500 jobs that wait, as coroutines", waiting.measure_async, _all(15)),
    "threads": Line("500 jobs that wait, in threads", waiting.measure_threads, _all(15)),
    "runners": Line("twenty runners: the last one's first claim", runners.measure, _all(15), scales=False),
    "idle": Line("CPU of a cycle with nothing to do", idle.measure, _all(15), scales=False),
    "size": Line("claims and idle cycles at 10,000,000 rows", size.measure, _all(900)),
    "enqueue": Line("2,000 jobs one by one", enqueue.measure_one, _all(20)),
    "enqueue_many": Line("100,000 jobs at once", enqueue.measure_many, _all(40)),
    "memory": Line("memory of a drain, and what is left", memory.measure, _all(60)),
    "profile": Line("where the time of a job goes", profile.measure, _all(120)),
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
