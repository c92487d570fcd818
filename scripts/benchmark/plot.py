"""A plot of the cost per lane, as SVG."""

import re
from collections.abc import Iterator, Sequence
from math import log10

from scripts.benchmark.figures import Record

NAME = re.compile(r"([0-9,]+) lanes .*: CPU")
WIDTH, HEIGHT, MARGIN = 640, 360, 60
COLORS = {"mariadb": "#b45309", "postgres": "#1d4ed8", "sqlite": "#047857"}
LANE_TICKS, SECOND_TICKS = (10, 100, 1000), (0.1, 1, 10)

Point = tuple[float, float]  # lanes, CPU seconds


def lanes_plot(records: Sequence[Record]) -> str:
    """The CPU of one cycle by the number of lanes, both logarithmic: a straight line of slope 1 is linear."""
    body = [*_axes()]
    for number, record in enumerate(each for each in records if each.benchmark == "lanes"):
        points = [_place(*point) for point in points_of(record)]
        color = COLORS[record.engine]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        body.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        body += (f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4" fill="{color}"/>' for x, y in points)
        body.append(_text(MARGIN + 20, MARGIN + 18 * number, record.engine, color))
    content = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
        f' font-size="13">\n<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{content}\n</svg>\n'
    )


def points_of(record: Record) -> list[Point]:
    found = [(NAME.fullmatch(figure.name), figure.value) for figure in record.figures]
    return sorted((float(match[1].replace(",", "")), value) for match, value in found if match)


def _axes() -> Iterator[str]:
    for lanes in LANE_TICKS:
        x, bottom = _place(lanes, SECOND_TICKS[0])
        yield f'<line x1="{x:.0f}" y1="{MARGIN / 2}" x2="{x:.0f}" y2="{bottom:.0f}" stroke="#ddd"/>'
        yield _text(x - 12, bottom + 18, f"{lanes:,}")
    for seconds in SECOND_TICKS:
        left, y = _place(LANE_TICKS[0], seconds)
        yield f'<line x1="{left:.0f}" y1="{y:.0f}" x2="{WIDTH - MARGIN / 2}" y2="{y:.0f}" stroke="#ddd"/>'
        yield _text(left - 45, y + 4, f"{seconds:g} s")
    yield _text(WIDTH / 2 - 90, HEIGHT - 12, "lanes with 5 no-op jobs each")
    yield _text(8, 18, "CPU of the cycle")


def _place(lanes: float, seconds: float) -> Point:
    across = (log10(lanes) - log10(LANE_TICKS[0])) / (log10(LANE_TICKS[-1]) - log10(LANE_TICKS[0]))
    up = (log10(seconds) - log10(SECOND_TICKS[0])) / (log10(SECOND_TICKS[-1]) - log10(SECOND_TICKS[0]))
    return MARGIN + across * (WIDTH - 1.5 * MARGIN), HEIGHT - MARGIN - up * (HEIGHT - 1.5 * MARGIN)


def _text(x: float, y: float, content: str, color: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{color}">{content}</text>'
