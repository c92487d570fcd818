"""What a benchmark is given: a database of its own, the scale, and somebody to tell what it is doing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from scripts.benchmark.engines import Engine
from scripts.benchmark.figures import Finding
from scripts.benchmark.stage import Stage, new_stage
from tests.databases import Databases


class Progress(Protocol):
    def say(self, doing: str) -> None:
        """What is being prepared or measured now."""

    def tick(self) -> None:
        """Time has passed."""


@dataclass(frozen=True)
class Lab:
    databases: Databases
    engine: Engine
    scale: float
    times: int
    progress: Progress

    def scaled(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.scale))

    def stage(self) -> AbstractContextManager[Stage]:
        return new_stage(self.databases, self.engine)

    def say(self, doing: str) -> None:
        self.progress.say(doing)


Measure = Callable[[Lab], Iterator[Finding]]  # a benchmark: yields each finding as soon as it has it
