"""Charts as SVG, made here: no script, no style but classes of console.css, and words for who does not see them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from markupsafe import Markup, escape

from console.web.axes import Unit, count_text, marks, time_marks

WIDTH, HEIGHT = 440, 170
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 8, 22
SPARK_WIDTH, SPARK_HEIGHT = 90, 22
LONE_RADIUS = 2


@dataclass(frozen=True)
class Series:
    name: str
    values: Sequence[float | None]  # None: nothing is known of this point, and nothing is drawn


@dataclass(frozen=True)
class Chart:
    key: str  # its id on the page
    title: str
    unit: Unit
    step: timedelta
    begins: Sequence[datetime]  # of each point
    series: Sequence[Series]  # of as many values each
    as_bars: bool = False  # one upon the other

    @cached_property
    def highest(self) -> float:
        """What the axis must hold."""
        columns = zip(*(each.values for each in self.series), strict=True)
        known = [[value for value in column if value is not None] for column in columns]
        return max((sum(each) if self.as_bars else max(each) for each in known if each), default=0)

    @property
    def is_empty(self) -> bool:
        return all(value is None for each in self.series for value in each.values)

    @property
    def summary(self) -> str:
        """In a sentence, for who cannot see it."""
        return " ".join(_summary(each, self.begins, self.unit) for each in self.series)

    @property
    def rows(self) -> Iterator[tuple[datetime, list[str]]]:
        """As a table, the newest first."""
        for place in reversed(range(len(self.begins))):
            values = (each.values[place] for each in self.series)
            yield self.begins[place], ["–" if each is None else self.unit.text(each) for each in values]

    def __html__(self) -> Markup:
        return draw(self)


def _summary(series: Series, begins: Sequence[datetime], unit: Unit) -> str:
    known = [(value, at) for value, at in zip(series.values, begins, strict=True) if value is not None]
    if not known:
        return f"{series.name}: nothing is known."
    highest, at = max(known)
    last, _ = known[-1]
    words = f"{series.name}: at most {unit.text(highest)} ({at:%d %b %H:%M} UTC), last {unit.text(last)}"
    return f"{words} {unit.name}.".replace(" .", ".")


class _Plane:
    """Where a value and a time lie."""

    def __init__(self, chart: Chart) -> None:
        self.marks = marks(chart.highest, chart.unit.steps)
        self._ceiling = self.marks[-1]
        self.first, self.end = chart.begins[0], chart.begins[-1] + chart.step
        self.wide = (WIDTH - LEFT - RIGHT) / len(chart.begins)

    def x(self, at: datetime) -> float:
        return LEFT + (at - self.first) / (self.end - self.first) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (1 - value / self._ceiling) * (HEIGHT - TOP - BOTTOM)

    def left_of(self, place: int) -> float:
        return LEFT + place * self.wide

    def middle_of(self, place: int) -> float:
        return LEFT + (place + 0.5) * self.wide


def draw(chart: Chart) -> Markup:
    plane = _Plane(chart)
    shapes = _bars(chart, plane) if chart.as_bars else _lines(chart, plane)
    parts = (*_head(chart), *_axes(chart, plane), *shapes, *_hints(chart, plane), "</svg>")
    return Markup("".join(parts))  # noqa: S704 - numbers, and texts that _head, _axes and _hints have escaped


def _head(chart: Chart) -> Iterator[str]:
    key = escape(chart.key)
    yield f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-t {key}-d">'
    yield f'<title id="{key}-t">{escape(chart.title)}</title><desc id="{key}-d">{escape(chart.summary)}</desc>'


def _axes(chart: Chart, plane: _Plane) -> Iterator[str]:
    for value in plane.marks:
        y = plane.y(value)
        yield f'<line class="gridline" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        text = _text(chart.unit.short(value))
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    for at, words in time_marks(plane.first, plane.end):
        x, bottom = plane.x(at), HEIGHT - BOTTOM
        yield f'<line class="gridline" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
        if LEFT + 12 <= x <= WIDTH - RIGHT - 12:  # one that would be cut off is not written
            yield f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 5}" text-anchor="middle">{_text(words)}</text>'


def _bars(chart: Chart, plane: _Plane) -> Iterator[str]:
    width = max(1.0, plane.wide - 1)
    for place in range(len(chart.begins)):
        below = 0.0
        for number, each in enumerate(chart.series):
            value = each.values[place] or 0
            if value:
                x, top, high = plane.left_of(place), plane.y(below + value), plane.y(below) - plane.y(below + value)
                where = f'x="{x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{high:.1f}"'
                yield f'<rect class="bar series-{number}" {where}/>'
            below += value


def _lines(chart: Chart, plane: _Plane) -> Iterator[str]:
    for number, each in enumerate(chart.series):
        for run in runs(each.values):
            at = [(plane.middle_of(place), plane.y(value)) for place, value in run]
            if len(at) == 1:
                x, y = at[0]
                yield f'<circle class="lone series-{number}" cx="{x:.1f}" cy="{y:.1f}" r="{LONE_RADIUS}"/>'
            else:
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
                yield f'<polyline class="line series-{number}" points="{points}"/>'


def runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Neighbours of which something is known, each with its place: a line must not bridge what nobody knows."""
    run: list[tuple[int, float]] = []
    for place, value in enumerate(values):
        if value is not None:
            run.append((place, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _hints(chart: Chart, plane: _Plane) -> Iterator[str]:
    """What is said of a point when the mouse rests above it."""
    for place, begins_at in enumerate(chart.begins):
        known = [(each.name, each.values[place]) for each in chart.series]
        told = ", ".join(f"{name} {chart.unit.text(value)}" for name, value in known if value is not None)
        if told:
            high = HEIGHT - TOP - BOTTOM
            where = f'x="{plane.left_of(place):.1f}" y="{TOP}" width="{plane.wide:.1f}" height="{high}"'
            words = _text(f"{begins_at:%d %b %H:%M} UTC: {told}")
            yield f'<rect class="hint" fill="transparent" {where}><title>{words}</title></rect>'


def sparkline(values: Sequence[int], words: str) -> Markup:
    """A line of the size of a word; `words` say what it is of."""
    ceiling = max([*values, 1])
    wide = SPARK_WIDTH / max(1, len(values) - 1)
    heights = [1 + (1 - value / ceiling) * (SPARK_HEIGHT - 2) for value in values]
    points = " ".join(f"{place * wide:.1f},{y:.1f}" for place, y in enumerate(heights))
    told = _text(f"{words}: {count_text(sum(values))}")
    size = f'viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}"'
    head = f'<svg class="sparkline" {size} role="img"><title>{told}</title>'
    line = f'<polyline class="line series-0" points="{points}"/>'
    return Markup(f"{head}{line}</svg>")  # noqa: S704 - numbers, and a text that was escaped


def _text(words: str) -> str:
    return str(escape(words))
