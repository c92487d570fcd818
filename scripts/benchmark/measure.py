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
    at_least: float | None = None  # of the ratio
    at_most: float | None = None

    @property
    def ratio(self) -> float:
        return median(self.ours) / median(self.yardstick)

    @property
    def is_reached(self) -> bool:
        too_small = self.at_least is not None and self.ratio < self.at_least
        too_large = self.at_most is not None and self.ratio > self.at_most
        return not too_small and not too_large

    def row(self) -> tuple[str, ...]:
        verdict = "reached" if self.is_reached else "MISSED"
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
