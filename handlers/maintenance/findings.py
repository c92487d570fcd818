"""The findings of a health check: green, yellow or red, by configurable thresholds."""

from collections.abc import Iterable
from typing import NamedTuple

from mayfly import Dead, setting

GREEN, YELLOW, RED = "green", "yellow", "red"
MAX_THRESHOLD = 1e6
RANKS = {GREEN: 0, YELLOW: 1, RED: 2}


class Finding(NamedTuple):
    what: str
    health: str
    text: str


class Thresholds(NamedTuple):
    """A value is yellow from the first threshold, red from the second."""

    yellow: float
    red: float

    def judge(self, figure: float) -> str:
        if figure >= self.red:
            return RED
        return YELLOW if figure >= self.yellow else GREEN


def read_thresholds(name: str, usual: str) -> Thresholds:
    """Read a setting such as HEALTH_DISK=85,95."""
    try:
        yellow, red = (float(each) for each in setting(name, usual).split(","))
    except ValueError:
        yellow, red = 1.0, 0.0
    if not 0 <= yellow <= red < MAX_THRESHOLD or red == 0:  # also refuses NaN
        raise Dead(f"{name} must be two numbers such as {usual}: yellow from the first, red from the second")
    return Thresholds(yellow, red)


def worst(findings: Iterable[Finding]) -> str:
    return max((each.health for each in findings), key=RANKS.__getitem__, default=GREEN)
