"""Which curves make which chart."""

from collections.abc import Sequence
from pathlib import Path

from scripts.benchmark.figures import Curve
from scripts.benchmark.lines import drain, size
from scripts.benchmark.results import Record
from scripts.benchmark.svg import Chart, Panel, Series, draw

NAMES = (drain.CHART, size.CHART)


def write_charts(directory: Path, records: Sequence[Record], prefix: str = "") -> list[Path]:
    """One file a chart for which there are curves."""
    curves = [curve for record in records for curve in record.curves]
    written = []
    for name in NAMES:
        ours = [each for each in curves if each.chart == name]
        if ours:
            path = directory / f"{prefix}{name}.svg"
            path.write_text(draw(chart_of(name, ours)))
            written.append(path)
    return written


def chart_of(name: str, curves: Sequence[Curve]) -> Chart:
    panels = tuple(
        Panel(title, tuple(Series(each.label, each.points) for each in curves if each.panel == title))
        for title in dict.fromkeys(each.panel for each in curves)
    )
    if name == drain.CHART:
        return Chart("Jobs done over time, default settings", "seconds", "jobs done", panels)
    smallest = min(point[0] for curve in curves for point in curve.points)
    title = f"What rows in the table cost, against {smallest:,.0f} rows"
    return Chart(title, "rows", "ratio", panels, is_log=True, limit=size.GOAL.at_most)
