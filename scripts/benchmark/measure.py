"""What every benchmark shares: alternate runs, medians and spreads, and the table at the end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One line of the report: ours, the yardstick's, and what is asked of their ratio."""

    name: str
    engine: str
    unit: str
    ours: tuple[float, ...]
    yardstick: tuple[float, ...]
    goal: str
    reached: bool

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.yardstick)

    def row(self) -> tuple[str, ...]:
        verdict = "reached" if self.reached else "MISSED"
        ours, yardstick = _with_spread(self.ours), _with_spread(self.yardstick)
        return (self.name, self.engine, ours, yardstick, self.unit, f"{self.ratio:.2f}", self.goal, verdict)


HEADINGS = ("what", "database", "Mayfly", "yardstick", "unit", "ratio", "goal", "")


def alternately(
    first: Callable[[], float], second: Callable[[], float], times: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """In turns, so that a noisy minute hits both."""
    pairs = [(first(), second()) for _ in range(times)]
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def table(figures: Sequence[Figure]) -> str:
    rows = [HEADINGS, *(each.row() for each in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def _with_spread(values: Sequence[float]) -> str:
    return f"{median(values):,.4g} ({min(values):,.4g}–{max(values):,.4g})"
