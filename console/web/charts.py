"""Charts and sparklines: axes, coordinates and text alternatives. The template chart.html draws them as SVG."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

WIDTH, HEIGHT = 440, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 22
SPARK_WIDTH, SPARK_HEIGHT = 90, 22

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000  # milliseconds
DURATIONS: tuple[float, ...] = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(each * SECOND for each in (1, 2, 5, 10, 15, 30)),
    *(each * MINUTE for each in (1, 2, 5, 10, 15, 30)),
    *(each * HOUR for each in (1, 2, 6, 12)),
    *(each * DAY for each in (1, 2, 5, 10, 30, 90, 365)),
)
COUNTS: tuple[float, ...] = tuple(step * 10**power for power in range(15) for step in (1, 2, 5))  # integers
TIMES = (*(timedelta(minutes=each) for each in (1, 5, 15, 30)),
         *(timedelta(hours=each) for each in (1, 2, 4, 6, 12)),
         *(timedelta(days=each) for each in (1, 2, 5, 10, 30)))  # fmt: skip
SUFFIXES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (1000, "k"))
ABBREVIATE_FROM = 10_000
MAX_MARKS, MAX_TIME_MARKS = 4, 7
LABEL_MARGIN = 12  # a label closer to an end of the axis would be cut off
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Point = tuple[float, float]


class AxisUnit(NamedTuple):
    """How values are formatted, and the steps that the axis may have."""

    name: str  # after a value: "per minute"; may be empty
    short: Callable[[float], str]  # beside an axis
    text: Callable[[float], str]
    steps: Sequence[float]


def count_text(value: float) -> str:
    """1,250 and 12.5 and 0.25."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def short_count(value: float) -> str:
    """Like count_text, but 12.5k and 3M."""
    if value < ABBREVIATE_FROM:
        return count_text(value)
    size, letter = next(each for each in SUFFIXES if value >= each[0])
    return f"{value / size:.1f}".removesuffix(".0") + letter


def duration_text(milliseconds: float) -> str:
    """500 ms, 15 s, 2 min, 6 h."""
    for size, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if milliseconds >= size:
            return f"{milliseconds / size:.3g} {letter}"
    return f"{milliseconds:.3g} ms" if milliseconds else "0"


def count_unit(name: str) -> AxisUnit:
    return AxisUnit(name, short_count, count_text, COUNTS)


DURATION = AxisUnit("", duration_text, duration_text, DURATIONS)


def marks(highest: float, steps: Sequence[float]) -> list[float]:
    """Return marks from 0 up to at least the highest value: 1 to MAX_MARKS of them above 0."""
    step = next((each for each in steps if highest <= each * MAX_MARKS), steps[-1])
    number = max(1, -int(-highest // step))
    if number > MAX_MARKS:  # beyond the largest step: only the two ends
        return [0, step * number]
    return [step * each for each in range(number + 1)]


def time_marks(first: datetime, end: datetime) -> list[tuple[datetime, str]]:
    """Round times (hours, days) within a period, in UTC, with their labels."""
    step = next((each for each in TIMES if (end - first) / each <= MAX_TIME_MARKS), TIMES[-1])
    at = EPOCH - (EPOCH - first) // step * step
    found = []
    while at <= end:
        found.append((at, f"{at:%H:%M}" if step < timedelta(days=1) else f"{at.day} {at:%b}"))
        at += step
    return found


@dataclass(frozen=True)
class Series:
    name: str
    values: Sequence[float | None]  # None: unknown, not drawn


@dataclass(frozen=True)
class Chart:
    key: str  # the id of the element
    title: str
    unit: AxisUnit
    step: timedelta
    begins: Sequence[datetime]  # start of each point
    series: Sequence[Series]  # each with one value per point
    as_bars: bool = False  # stacked

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM

    @cached_property
    def highest(self) -> float:
        """The highest value that the axis must show."""
        columns = zip(*(each.values for each in self.series), strict=True)
        known = [[value for value in column if value is not None] for column in columns]
        return max((sum(each) if self.as_bars else max(each) for each in known if each), default=0)

    @property
    def summary(self) -> str:
        """A text alternative for screen readers."""
        return " ".join(_summary(each, self.begins, self.unit) for each in self.series)

    @property
    def rows(self) -> Iterator[tuple[datetime, list[str]]]:
        """The values as a table, newest first."""
        for index in reversed(range(len(self.begins))):
            values = (each.values[index] for each in self.series)
            yield self.begins[index], ["–" if each is None else self.unit.text(each) for each in values]

    @cached_property
    def _marks(self) -> list[float]:
        return marks(self.highest, self.unit.steps)

    @cached_property
    def wide(self) -> float:
        """The width of one point."""
        return (self.right - self.left) / len(self.begins)

    def _y(self, value: float) -> float:
        return self.top + (1 - value / self._marks[-1]) * (self.bottom - self.top)

    @property
    def value_axis(self) -> Iterator[tuple[float, str]]:
        """Each mark: its height and its label."""
        for value in self._marks:
            yield self._y(value), self.unit.short(value)

    @property
    def time_axis(self) -> Iterator[tuple[float, str]]:
        first, end = self.begins[0], self.begins[-1] + self.step
        for at, label in time_marks(first, end):
            x = self.left + (at - first) / (end - first) * (self.right - self.left)
            yield x, label if self.left + LABEL_MARGIN <= x <= self.right - LABEL_MARGIN else ""

    @property
    def bars(self) -> Iterator[tuple[int, float, float, float]]:
        """Number of the series, left, top and height."""
        for index in range(len(self.begins)):
            below = 0.0
            for number, each in enumerate(self.series):
                value = each.values[index] or 0
                if value:
                    top = self._y(below + value)
                    yield number, self.left + index * self.wide, top, self._y(below) - top
                below += value

    @property
    def lines(self) -> Iterator[tuple[int, list[Point]]]:
        """Number of the series, and points. A gap in the data splits a line."""
        for number, each in enumerate(self.series):
            for run in runs(each.values):
                yield number, [(self.left + (index + 0.5) * self.wide, self._y(value)) for index, value in run]

    @property
    def hints(self) -> Iterator[tuple[float, str]]:
        """Tooltips: left and text of each point."""
        for index, begins_at in enumerate(self.begins):
            known = [(each.name, each.values[index]) for each in self.series]
            text = ", ".join(f"{name} {self.unit.text(value)}" for name, value in known if value is not None)
            if text:
                yield self.left + index * self.wide, f"{begins_at:%d %b %H:%M} UTC: {text}"


def _summary(series: Series, begins: Sequence[datetime], unit: AxisUnit) -> str:
    known = [(value, at) for value, at in zip(series.values, begins, strict=True) if value is not None]
    if not known:
        return f"{series.name}: no data."
    highest, at = max(known)
    last, _ = known[-1]
    words = f"{series.name}: highest {unit.text(highest)} ({at:%d %b %H:%M} UTC), last {unit.text(last)}"
    return f"{words} {unit.name}.".replace(" .", ".")


def runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Runs of known values, each with its index."""
    for is_known, run in groupby(enumerate(values), key=lambda each: each[1] is not None):
        if is_known:
            yield [(index, value) for index, value in run if value is not None]


@dataclass(frozen=True)
class Sparkline:
    values: Sequence[int]

    width, height = SPARK_WIDTH, SPARK_HEIGHT

    @property
    def total(self) -> int:
        return sum(self.values)

    @property
    def points(self) -> Iterator[Point]:
        ceiling = max([*self.values, 1])
        wide = self.width / max(1, len(self.values) - 1)
        for index, value in enumerate(self.values):
            yield index * wide, 1 + (1 - value / ceiling) * (self.height - 2)
