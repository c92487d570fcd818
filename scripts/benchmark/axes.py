"""Axes of a chart: where a value lies, and where the ticks are. Pure: values in, values out."""

import math
from dataclasses import dataclass

TINY = 1e-9  # logarithms of powers of ten are not quite whole


@dataclass(frozen=True)
class Axis:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log10(each) if self.is_log else each for each in (self.low, self.high, value))
        return round(self.start + (value - low) / ((high - low) or 1) * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        if self.is_log:
            low, high = math.log10(self.low), math.log10(self.high)
            return [10.0**power for power in range(math.ceil(low - TINY), math.floor(high + TINY) + 1)]
        step = _round_step((self.high - self.low) / 4)
        return [self.low + number * step for number in range(int((self.high - self.low) / step + TINY) + 1)]


def short(value: float) -> str:
    for size, unit in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def ceiling(highest: float) -> float:
    """The next tick above."""
    step = _round_step((highest or 1) / 4)
    return step * math.ceil(round((highest or 1) / step, 6))


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten, at least as much."""
    power = 10.0 ** math.floor(math.log10(rough or 1))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= rough * 0.999), 10 * power)
