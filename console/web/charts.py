"""Charts and sparklines as SVG: axes, bars, lines, and a text alternative. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 22
SPARK_WIDTH, SPARK_HEIGHT = 90, 22
POINT_RADIUS = 2

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
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AxisUnit(NamedTuple):
    """How values are formatted, and the possible steps of an axis."""

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
    """As count_text, but 12.5k and 3M."""
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


def marks(highest: float, steps: Sequence[float]) -> list[float]:
    """From 0 to the first mark not below the highest value; at most MAX_MARKS above 0, and at least one."""
    step = next((each for each in steps if highest <= each * MAX_MARKS), steps[-1])
    number = max(1, -int(-highest // step))
    if number > MAX_MARKS:  # beyond the largest step: only both ends
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


def duration_unit() -> AxisUnit:
    return AxisUnit("", duration_text, duration_text, DURATIONS)


def count_unit(name: str) -> AxisUnit:
    return AxisUnit(name, short_count, count_text, COUNTS)


@dataclass(frozen=True)
class Series:
    name: str
    values: Sequence[float | None]  # None: unknown, nothing is drawn


@dataclass(frozen=True)
class Chart:
    key: str  # the id of the element
    title: str
    unit: AxisUnit
    step: timedelta
    begins: Sequence[datetime]  # start of each point
    series: Sequence[Series]  # each with one value per point
    as_bars: bool = False  # stacked

    @cached_property
    def highest(self) -> float:
        """The highest value that the axis must show."""
        columns = zip(*(each.values for each in self.series), strict=True)
        known = [[value for value in column if value is not None] for column in columns]
        return max((sum(each) if self.as_bars else max(each) for each in known if each), default=0)

    @property
    def is_empty(self) -> bool:
        return all(value is None for each in self.series for value in each.values)

    @property
    def summary(self) -> str:
        """A text alternative for screen readers."""
        return " ".join(_summary(each, self.begins, self.unit) for each in self.series)

    @property
    def rows(self) -> Iterator[tuple[datetime, list[str]]]:
        """As a table, newest first."""
        for index in reversed(range(len(self.begins))):
            values = (each.values[index] for each in self.series)
            yield self.begins[index], ["–" if each is None else self.unit.text(each) for each in values]

    def __html__(self) -> Markup:
        return draw(self)


def _summary(series: Series, begins: Sequence[datetime], unit: AxisUnit) -> str:
    known = [(value, at) for value, at in zip(series.values, begins, strict=True) if value is not None]
    if not known:
        return f"{series.name}: no data."
    highest, at = max(known)
    last, _ = known[-1]
    words = f"{series.name}: highest {unit.text(highest)} ({at:%d %b %H:%M} UTC), last {unit.text(last)}"
    return f"{words} {unit.name}.".replace(" .", ".")


class _Scale:
    """Coordinates of values and times."""

    def __init__(self, chart: Chart) -> None:
        self.marks = marks(chart.highest, chart.unit.steps)
        self._ceiling = self.marks[-1]
        self.first, self.end = chart.begins[0], chart.begins[-1] + chart.step
        self.wide = (WIDTH - LEFT - RIGHT) / len(chart.begins)

    def x(self, at: datetime) -> float:
        return LEFT + (at - self.first) / (self.end - self.first) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (1 - value / self._ceiling) * (HEIGHT - TOP - BOTTOM)

    def left_of(self, index: int) -> float:
        return LEFT + index * self.wide

    def middle_of(self, index: int) -> float:
        return LEFT + (index + 0.5) * self.wide


def draw(chart: Chart) -> Markup:
    scale = _Scale(chart)
    shapes = _bars(chart, scale) if chart.as_bars else _lines(chart, scale)
    parts = (*_head(chart), *_axes(chart, scale), *shapes, *_hints(chart, scale), "</svg>")
    return Markup("".join(parts))  # noqa: S704 - numbers, and texts that _head, _axes and _hints have escaped


def _head(chart: Chart) -> Iterator[str]:
    key = escape(chart.key)
    yield f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-t {key}-d">'
    yield f'<title id="{key}-t">{escape(chart.title)}</title><desc id="{key}-d">{escape(chart.summary)}</desc>'


def _axes(chart: Chart, scale: _Scale) -> Iterator[str]:
    for value in scale.marks:
        y = scale.y(value)
        yield f'<line class="gridline" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = _text(chart.unit.short(value))
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for at, label in time_marks(scale.first, scale.end):
        x, bottom = scale.x(at), HEIGHT - BOTTOM
        yield f'<line class="gridline" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
        if LEFT + 12 <= x <= WIDTH - RIGHT - 12:  # not where it would be cut off
            yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 5}" text-anchor="middle">{_text(label)}</text>'


def _bars(chart: Chart, scale: _Scale) -> Iterator[str]:
    width = max(1.0, scale.wide - 1)
    for index in range(len(chart.begins)):
        below = 0.0
        for number, each in enumerate(chart.series):
            value = each.values[index] or 0
            if value:
                x, top, high = scale.left_of(index), scale.y(below + value), scale.y(below) - scale.y(below + value)
                where = f'x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{high:.1f}"'
                yield f'<rect class="bar series-{number}" {where}/>'
            below += value


def _lines(chart: Chart, scale: _Scale) -> Iterator[str]:
    for number, each in enumerate(chart.series):
        for run in runs(each.values):
            at = [(scale.middle_of(index), scale.y(value)) for index, value in run]
            if len(at) == 1:
                x, y = at[0]
                yield f'<circle class="point series-{number}" cx="{x:.1f}" cy="{y:.1f}" r="{POINT_RADIUS}"/>'
            else:
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
                yield f'<polyline class="line series-{number}" points="{points}"/>'


def runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Runs of known values, each with its index: a line must not cross a gap."""
    run: list[tuple[int, float]] = []
    for index, value in enumerate(values):
        if value is not None:
            run.append((index, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _hints(chart: Chart, scale: _Scale) -> Iterator[str]:
    """Tooltips, one per point."""
    for index, begins_at in enumerate(chart.begins):
        known = [(each.name, each.values[index]) for each in chart.series]
        text = ", ".join(f"{name} {chart.unit.text(value)}" for name, value in known if value is not None)
        if text:
            high = HEIGHT - TOP - BOTTOM
            where = f'x="{scale.left_of(index):.1f}" y="{TOP}" width="{scale.wide:.1f}" height="{high}"'
            title = _text(f"{begins_at:%d %b %H:%M} UTC: {text}")
            yield f'<rect class="hint" fill="transparent" {where}><title>{title}</title></rect>'


def sparkline(values: Sequence[int], label: str) -> Markup:
    """A small line chart within a text."""
    ceiling = max([*values, 1])
    wide = SPARK_WIDTH / max(1, len(values) - 1)
    heights = [1 + (1 - value / ceiling) * (SPARK_HEIGHT - 2) for value in values]
    points = " ".join(f"{index * wide:.1f},{y:.1f}" for index, y in enumerate(heights))
    title = _text(f"{label}: {count_text(sum(values))}")
    size = f'viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}"'
    head = f'<svg class="sparkline" {size} role="img"><title>{title}</title>'
    line = f'<polyline class="line series-0" points="{points}"/>'
    return Markup(f"{head}{line}</svg>")  # noqa: S704 - numbers, and a text that was escaped


def _text(text: str) -> str:
    return str(escape(text))
