"""Measure one line after the other; a line that fails loses neither those before nor those after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mayfly.clock import monotonic
from scripts.benchmark.charts import write_charts
from scripts.benchmark.engines import ENGINES
from scripts.benchmark.figures import Curve, Figure
from scripts.benchmark.lab import Lab
from scripts.benchmark.progress import Bar
from scripts.benchmark.registry import LINES, Step
from scripts.benchmark.results import FILE, Record, merged, read_records, write_records
from tests.databases import Databases

FULL = 1.0
ORDER = [(line, engine) for line in LINES for engine in ENGINES]


@dataclass(frozen=True)
class Session:
    steps: Sequence[Step]
    scale: float
    times: int
    output: Path
    environment: Mapping[str, Any]

    @property
    def estimate(self) -> float:
        return sum(each.line.estimate(each.engine, self.scale, self.times) for each in self.steps)

    def run(self, done: Callable[[Record], None]) -> list[Record]:
        """Each line is written as soon as it is there, beside what the directory already has of others."""
        databases = Databases({})  # whatever servers variables may name: ours are private
        records: list[Record] = []
        try:
            with Bar(self.estimate, len(self.steps)) as bar:
                for step in self.steps:
                    bar.begin(
                        f"{step.name} on {step.engine}", step.line.estimate(step.engine, self.scale, self.times)
                    )
                    record = self._measure(step, Lab(databases, ENGINES[step.engine], self.scale, self.times, bar))
                    records.append(record)
                    self._keep(record)
                    done(record)
        finally:
            databases.close()
        return records

    def _measure(self, step: Step, lab: Lab) -> Record:
        judged = self.scale >= FULL or not step.line.scales
        at = datetime.now(UTC).isoformat(timespec="seconds")
        record = Record(step.name, step.engine, self.scale, self.times, judged, at, 0.0, self.environment)
        figures: list[Figure] = []
        curves: list[Curve] = []
        error, started = None, monotonic()
        try:
            for finding in step.line.measure(lab):
                (figures if isinstance(finding, Figure) else curves).append(finding)  # type: ignore[arg-type]
        except Exception as failure:  # noqa: BLE001 - whatever it is: the other lines are still worth measuring
            error = str(failure) or type(failure).__name__
        seconds, server = round(monotonic() - started, 1), lab.databases.used.get(step.engine, "")
        circumstances = {**self.environment, "server": server}
        return replace(
            record,
            seconds=seconds,
            environment=circumstances,
            figures=tuple(figures),
            curves=tuple(curves),
            error=error,
        )

    def _keep(self, record: Record) -> None:
        kept = merged(read_records(self.output / FILE), record, ORDER)
        write_records(self.output, kept)
        write_charts(self.output, kept)
