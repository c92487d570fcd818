"""What a benchmark finds: figures with their goals, and curves for the plots. Pure: values in, values out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

Ours = TypeVar("Ours")
Theirs = TypeVar("Theirs")


@dataclass(frozen=True)
class Goal:
    """What is asked of a figure: of its ratio to the yardstick, or of the figure itself."""

    at_least: float | None = None
    at_most: float | None = None
    of_ratio: bool = True

    def is_reached(self, value: float) -> bool:
        too_small = self.at_least is not None and value < self.at_least
        too_large = self.at_most is not None and value > self.at_most
        return not too_small and not too_large

    @property
    def text(self) -> str:
        bounds = [("≥", self.at_least), ("≤", self.at_most)]
        return " and ".join(f"{sign} {shown(bound)}" for sign, bound in bounds if bound is not None)


@dataclass(frozen=True)
class Figure:
    """One line of the report: every run's value of ours, the yardstick's if there is one, and the goal."""

    name: str
    unit: str
    ours: tuple[float, ...]
    yardstick: tuple[float, ...] = ()
    goal: Goal | None = None

    @property
    def value(self) -> float:
        return median(self.ours)

    @property
    def ratio(self) -> float | None:
        """Of the medians; None without a yardstick, or with one that took nothing."""
        theirs = median(self.yardstick) if self.yardstick else 0
        return self.value / theirs if theirs else None

    @property
    def is_reached(self) -> bool | None:
        """None where nothing is asked."""
        judged = self.ratio if self.goal and self.goal.of_ratio else self.value
        return None if self.goal is None or judged is None else self.goal.is_reached(judged)


@dataclass(frozen=True)
class Curve:
    """One line of a plot: in which chart, in which panel of it, and its name in the legend."""

    chart: str
    panel: str
    label: str
    points: tuple[tuple[float, float], ...]


Finding = Figure | Curve


def at_least(bound: float) -> Goal:
    return Goal(at_least=bound)


def at_most(bound: float) -> Goal:
    return Goal(at_most=bound)


def alternately(
    ours: Callable[[], Ours], theirs: Callable[[], Theirs], times: int
) -> tuple[list[Ours], list[Theirs]]:
    """In turns, so that a noisy minute hits both."""
    pairs = [(ours(), theirs()) for _ in range(times)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def shown(value: float) -> str:
    """Three or four digits that matter, thousands apart."""
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def with_spread(values: Sequence[float]) -> str:
    """The median, and the least and the greatest."""
    if not values:
        return ""
    if len(values) == 1 or min(values) == max(values):
        return shown(median(values))
    return f"{shown(median(values))} ({shown(min(values))}–{shown(max(values))})"
