"""Draw line charts as SVG: panels side by side, one legend. Small, and the same bytes for the same values."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from scripts.benchmark.axes import Axis, ceiling, short

WIDTH, HEIGHT = 960, 340
LEFT, RIGHT, TOP, BOTTOM, GAP = 64, 20, 84, 52, 56
INK, FAINT, PAPER = "#24292f", "#6e7781", "#ffffff"
GRID, FRAME = "#eaeef2", "#d0d7de"
COLOURS = ("#0969da", "#cf6a00", "#2da44e", "#8250df", "#bf3989")
SPARE = {"bare loop": "#8c959f"}  # the yardstick is grey and dashed
MARKED_POINTS = 12  # so few are shown one by one
FONT = "-apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    label: str
    points: Points


@dataclass(frozen=True)
class Panel:
    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Chart:
    title: str
    x_title: str
    y_title: str
    panels: tuple[Panel, ...]
    is_log: bool = False  # the x axis
    limit: float | None = None  # a line that should not be crossed


def draw(chart: Chart) -> str:
    labels = list(dict.fromkeys(each.label for panel in chart.panels for each in panel.series))
    usual = [label for label in labels if label not in SPARE]
    colours = SPARE | {label: COLOURS[number % len(COLOURS)] for number, label in enumerate(usual)}
    parts = [*_head(chart), *_legend(labels, colours)]
    for number, panel in enumerate(chart.panels):
        parts += _panel(chart, panel, number, colours)
    return "\n".join([*parts, "</svg>", ""])


def _head(chart: Chart) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' font-family="{FONT}" font-size="12" fill="{INK}" role="img">'
    )
    yield f"<title>{escape(chart.title)}</title>"
    frame = f'x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="6"'
    yield f'<rect {frame} fill="{PAPER}" stroke="{FRAME}"/>'
    yield _text(20, 28, chart.title, 'font-size="15" font-weight="600"')


def _legend(labels: Sequence[str], colours: dict[str, str]) -> Iterator[str]:
    """From the right, on the line of the title."""
    x = WIDTH - 20.0
    for label in reversed(labels):
        x -= len(label) * 6.6
        yield _text(x, 28, label)
        yield f'<path d="M{x - 30:.1f} 24h24" {_stroke(label, colours)}/>'
        x -= 50


def _panel(chart: Chart, panel: Panel, number: int, colours: dict[str, str]) -> Iterator[str]:
    width = (WIDTH - LEFT - RIGHT - GAP * (len(chart.panels) - 1)) / len(chart.panels)
    left = LEFT + number * (width + GAP)
    points = [point for each in panel.series for point in each.points]
    highest = max([y for _x, y in points] + [chart.limit or 0])
    across = Axis(
        min(x for x, _y in points) if chart.is_log else 0,
        max(x for x, _y in points),
        left,
        left + width,
        chart.is_log,
    )
    upwards = Axis(0, ceiling(highest), HEIGHT - BOTTOM, TOP)
    yield _text(left, TOP - 14, panel.title, 'font-weight="600"')
    yield from _grid(across, upwards)
    yield _text(left + width / 2, HEIGHT - 14, chart.x_title, f'text-anchor="middle" fill="{FAINT}"')
    if number == 0:
        middle = (TOP + HEIGHT - BOTTOM) / 2
        yield _text(
            18, middle, chart.y_title, f'text-anchor="middle" fill="{FAINT}" transform="rotate(-90 18 {middle})"'
        )
    if chart.limit is not None:
        y = upwards.at(chart.limit)
        yield f'<path d="M{left:.1f} {y}h{width:.1f}" stroke="#cf222e" stroke-dasharray="2 3"/>'
        yield _text(left + width, y - 5, f"goal ≤ {chart.limit:g}", 'text-anchor="end" fill="#cf222e" font-size="11"')
    for each in panel.series:
        path = "L".join(f"{across.at(x)} {upwards.at(y)}" for x, y in each.points)
        yield f'<path d="M{path}" {_stroke(each.label, colours)} stroke-linejoin="round"/>'
        for x, y in each.points if len(each.points) <= MARKED_POINTS else ():
            yield f'<circle cx="{across.at(x)}" cy="{upwards.at(y)}" r="3" fill="{colours[each.label]}"/>'


def _grid(across: Axis, upwards: Axis) -> Iterator[str]:
    for value in upwards.ticks():
        y = upwards.at(value)
        yield f'<path d="M{across.start:.1f} {y}H{across.end:.1f}" stroke="{GRID}"/>'
        yield _text(across.start - 8, y + 4, short(value), f'text-anchor="end" fill="{FAINT}"')
    for value in across.ticks():
        x = across.at(value)
        yield f'<path d="M{x} {upwards.start}v4" stroke="{FRAME}"/>'
        yield _text(x, upwards.start + 18, short(value), f'text-anchor="middle" fill="{FAINT}"')
    yield f'<path d="M{across.start:.1f} {upwards.start}H{across.end:.1f}" stroke="{FRAME}"/>'


def _stroke(label: str, colours: dict[str, str]) -> str:
    dashed = ' stroke-dasharray="6 4"' if label in SPARE else ""
    return f'fill="none" stroke="{colours[label]}" stroke-width="2.2"{dashed}'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'.replace(" >", ">")
