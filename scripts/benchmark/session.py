"""Measure one line after the other; a line that fails loses neither those before nor those after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mayfly.clock import monotonic
from scripts.benchmark.charts import write_charts
from scripts.benchmark.engines import ENGINES
from scripts.benchmark.figures import Curve, Figure, Finding
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
        at, started = datetime.now(UTC), monotonic()
        findings, error = _findings(step, lab)
        server = lab.databases.used.get(step.engine, "").removesuffix(" (private)")
        return Record(
            line=step.name,
            engine=step.engine,
            scale=self.scale,
            times=self.times,
            judged=self.scale >= FULL or not step.line.scales,
            measured_at=at.isoformat(timespec="seconds"),
            seconds=round(monotonic() - started, 1),
            environment={**self.environment, "server": server},
            figures=tuple(each for each in findings if isinstance(each, Figure)),
            curves=tuple(each for each in findings if isinstance(each, Curve)),
            error=error,
        )

    def _keep(self, record: Record) -> None:
        kept = merged(read_records(self.output / FILE), record, ORDER)
        write_records(self.output / FILE, kept)
        write_charts(self.output, kept)


def _findings(step: Step, lab: Lab) -> tuple[list[Finding], str | None]:
    """What a line has found, and why it found no more."""
    findings: list[Finding] = []
    try:
        for each in step.line.measure(lab):
            findings.append(each)
    except Exception as error:  # noqa: BLE001 - whatever it is: the other lines are still worth measuring
        return findings, str(error) or type(error).__name__
    return findings, None
