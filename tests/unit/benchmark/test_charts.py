"""The plots: what is drawn lies where it should."""

from xml.etree import ElementTree

import pytest

from scripts.benchmark.axes import Axis, ceiling, short
from scripts.benchmark.charts import chart_of
from scripts.benchmark.figures import Curve
from scripts.benchmark.svg import draw

MAYFLY = Curve("drain", "SQLite", "Mayfly", ((0, 0), (10, 1000)))
LOOP = Curve("drain", "SQLite", "bare <loop>", ((0, 0), (8, 1000)))


def test_a_chart_is_well_formed_and_named() -> None:
    """Every label and title is in it, escaped; each curve is a path."""
    svg = draw(chart_of("drain", [MAYFLY, LOOP]))

    root = ElementTree.fromstring(svg)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Jobs done over time, default settings", "SQLite", "Mayfly", "bare <loop>", "seconds"} <= set(words)
    assert svg == draw(chart_of("drain", [MAYFLY, LOOP]))


def test_each_panel_has_its_own_curves() -> None:
    """In the order in which they came."""
    other = Curve("drain", "MariaDB", "Mayfly", ((0, 0), (1, 1)))

    chart = chart_of("drain", [MAYFLY, other, LOOP])

    assert [(each.title, [one.label for one in each.series]) for each in chart.panels] == [
        ("SQLite", ["Mayfly", "bare <loop>"]),
        ("MariaDB", ["Mayfly"]),
    ]


def test_values_lie_on_their_axis() -> None:
    """In equal steps, or in powers of ten."""
    linear, log = Axis(0, 10, 100, 200), Axis(1e4, 1e7, 0, 300, is_log=True)

    assert [linear.at(each) for each in (0, 5, 10)] == [100, 150, 200]
    assert [log.at(each) for each in (1e4, 1e5, 1e7)] == [0, 100, 300]
    assert linear.ticks() == [0, 2.5, 5, 7.5, 10]
    assert log.ticks() == [1e4, 1e5, 1e6, 1e7]


@pytest.mark.parametrize(("highest", "top"), [(1_000_000, 1_000_000), (1.3, 1.5), (0.9, 1.0), (7, 8), (0, 1)])
def test_an_axis_ends_at_a_tick(highest: float, top: float) -> None:
    """The next round number above what is shown."""
    assert ceiling(highest) == pytest.approx(top)


def test_numbers_are_short() -> None:
    """As a label needs them."""
    assert [short(each) for each in (0, 0.5, 750, 10_000, 2_500_000)] == ["0", "0.5", "750", "10 k", "2.5 M"]
