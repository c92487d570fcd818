"""Charts: shapes lie within the drawing, axes are readable, and the text alternative has the same figures."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.web.charts import (
    COUNTS,
    DURATION,
    DURATIONS,
    HEIGHT,
    MAX_MARKS,
    MAX_TIME_MARKS,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    WIDTH,
    AxisUnit,
    Chart,
    Series,
    Sparkline,
    count_text,
    count_unit,
    duration_text,
    marks,
    runs,
    short_count,
    time_marks,
)
from console.web.overview import charts_of, rate_of
from console.web.page import TEMPLATES
from mayfly.admin.charts import PERIODS, ChartPoint, History, points_of

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
STEP = timedelta(minutes=15)
SVG = "{http://www.w3.org/2000/svg}"

MACROS = cast(Any, TEMPLATES.get_template("chart.html").module)
values = st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=96)
nows = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - given one
units = st.sampled_from([count_unit("per minute"), DURATION])


def make_chart(*columns: list[float | None], unit: AxisUnit | None = None, as_bars: bool = False) -> Chart:
    begins = [NOON + number * STEP for number in range(len(columns[0]))]
    series = [Series(f"series {number}", column) for number, column in enumerate(columns)]
    return Chart("chart", "A title", unit or count_unit(""), STEP, begins, series, as_bars)


def draw(chart: Chart) -> str:
    return str(MACROS.svg(chart))


def sparkline(values: list[int], label: str) -> str:
    return str(MACROS.sparkline(Sparkline(values), label))


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names if name in element.attrib]


# --- axes -------------------------------------------------------------------------------------------------


@given(st.floats(0, 1e12), st.sampled_from([COUNTS, DURATIONS]))
def test_an_axis_covers_the_highest_value_with_few_marks(highest: float, steps: tuple[float, ...]) -> None:
    """From 0, at equal distances, at most MAX_MARKS."""
    found = marks(highest, steps)

    assert found[0] == 0
    assert found[-1] >= highest
    assert 2 <= len(found) <= MAX_MARKS + 1
    assert len({round(later - earlier, 6) for earlier, later in pairwise(found)}) == 1


@given(st.floats(0.001, 4 * COUNTS[-1]))
def test_an_axis_ends_at_the_first_mark_above_the_value(highest: float) -> None:
    """It wastes no space."""
    assert marks(highest, COUNTS)[-2] < highest


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0"), (5, "5 ms"), (1000, "1 s"), (1500, "1.5 s"), (90_000, "1.5 min"), (7_200_000, "2 h")],
)
def test_durations_are_written_in_their_unit(milliseconds: float, text: str) -> None:
    """Short enough for an axis."""
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("value", "text", "short"),
    [(0, "0", "0"), (0.25, "0.25", "0.25"), (7, "7", "7"), (9_999, "9,999", "9,999"), (12_500, "12,500", "12.5k"),
     (999_600, "999,600", "999.6k"), (2_000_000, "2,000,000", "2M"), (3e9, "3,000,000,000", "3G")],
)  # fmt: skip
def test_counts_are_exact_in_tables_and_short_on_axes(value: float, text: str, short: str) -> None:
    """12,500 and 12.5k."""
    assert (count_text(value), short_count(value)) == (text, short)


@given(st.floats(0, 10**14))
def test_labels_of_an_axis_are_short(value: float) -> None:
    """The margin fits about seven characters."""
    assert len(short_count(value)) <= 7


@given(nows, st.sampled_from(sorted(PERIODS)))
def test_times_are_marked_within_the_chart(now: datetime, name: str) -> None:
    """In order, and not too many."""
    begins = [datetime.fromtimestamp(each / 1000, UTC) for each in PERIODS[name].begins(now)]
    end = begins[-1] + timedelta(seconds=PERIODS[name].step)

    found = [at for at, _ in time_marks(begins[0], end)]

    assert 3 <= len(found) <= MAX_TIME_MARKS + 1
    assert found == sorted(found)
    assert begins[0] <= found[0]
    assert found[-1] <= end


# --- charts -----------------------------------------------------------------------------------------------


@given(values, units, st.booleans())
def test_all_shapes_lie_within_the_drawing(column: list[float | None], unit: AxisUnit, as_bars: bool) -> None:
    """For any values; and the SVG is well-formed."""
    drawn = parsed(draw(make_chart(column, column, unit=unit, as_bars=as_bars)))

    for each in drawn.iter():
        assert all(0 <= x <= WIDTH for x in numbers(each, "x", "x1", "x2", "cx"))
        assert all(0 <= y <= HEIGHT for y in numbers(each, "y", "y1", "y2", "cy"))
        for pair in each.attrib.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


@given(values)
def test_a_line_does_not_cross_unknown_values(column: list[float | None]) -> None:
    """Every known value is in exactly one run of neighbours."""
    found = list(runs(column))

    assert [pair for run in found for pair in run] == [
        (place, value) for place, value in enumerate(column) if value is not None
    ]
    for run in found:
        assert [place for place, _ in run] == list(range(run[0][0], run[0][0] + len(run)))


def test_a_chart_has_text_alternatives() -> None:
    """A title, a summary, a tooltip per point, and a table of the same figures."""
    chart = make_chart([1, 12_500, None, 3], unit=count_unit("per minute"))

    drawn = parsed(draw(chart))

    title, description = drawn.find(f"{SVG}title"), drawn.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert drawn.attrib["aria-labelledby"].split() == [title.attrib["id"], description.attrib["id"]]
    assert description.text == "series 0: highest 12,500 (04 May 12:15 UTC), last 3 per minute."
    hints = [each.text for each in drawn.findall(f"{SVG}rect/{SVG}title")]
    assert hints[1] == "04 May 12:15 UTC: series 0 12,500"
    assert len(hints) == 3
    assert [cells for _, cells in chart.rows] == [["3"], ["–"], ["12,500"], ["1"]]


def test_a_value_between_unknown_ones_is_a_point() -> None:
    """A line of one point would be invisible."""
    drawn = parsed(draw(make_chart([None, 5, None])))

    assert len(drawn.findall(f"{SVG}circle")) == 1
    assert drawn.findall(f"{SVG}polyline") == []


def test_bars_are_stacked() -> None:
    """The axis covers their sum."""
    chart = make_chart([3, 0], [4, 0], as_bars=True)

    bars = parsed(draw(chart)).findall(f"{SVG}rect[@class]")
    lower, upper = [each for each in bars if each.attrib["class"].startswith("bar")]
    [top], [above, height] = numbers(lower, "y"), numbers(upper, "y", "height")

    assert chart.highest == 7
    assert above + height == pytest.approx(top, abs=0.2)


def test_names_are_escaped() -> None:
    """Markup in the name of a series is shown as text."""
    chart = Chart('a"b', "<script>", count_unit(""), STEP, [NOON], [Series("<b>&", [1])])

    assert "<script>" not in draw(chart)
    assert "<b>" not in draw(chart)
    assert parsed(draw(chart)).findtext(f"{SVG}title") == "<script>"


def test_shapes_have_no_inline_styles() -> None:
    """The pages' Content-Security-Policy forbids it; colours are classes."""
    drawn = draw(make_chart([1, 2, None, 4], [2, 3, 4, 5])) + sparkline([1, 2], "done")

    assert not re.search(r"\bstyle=|#[0-9a-f]{3,6}|<script|\bon[a-z]+=", drawn)


@given(st.lists(st.integers(0, 10**9), max_size=60))
def test_a_sparkline_lies_within_its_drawing(column: list[int]) -> None:
    """Even without values."""
    line = parsed(sparkline(column, "jobs <done>")).find(f"{SVG}polyline")

    assert line is not None
    for pair in line.attrib["points"].split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= SPARK_WIDTH
        assert 0 <= y <= SPARK_HEIGHT


# --- the overview's ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("done", "minutes", "rate"),
    [(0, 15, "per minute"), (15, 15, "per minute"), (14, 15, "per hour"), (1, 480, "per day")],
)
def test_a_rate_uses_a_unit_in_which_it_is_at_least_one(done: int, minutes: int, rate: str) -> None:
    """0.002 jobs per minute is hard to read."""
    assert rate_of([ChartPoint(NOON, minutes, done=done)])[0] == rate


@pytest.mark.parametrize("name", sorted(PERIODS))
def test_the_overview_has_four_charts_of_any_period(name: str) -> None:
    """Also for an installation without any history."""
    history = History(PERIODS[name], tuple(points_of([], PERIODS[name], NOON)))

    charts = charts_of(history)

    assert history.is_empty
    assert len({each.key for each in charts}) == 4
    for each in charts:
        assert len(parsed(draw(each)).findall(f"{SVG}rect/{SVG}title")) in (0, PERIODS[name].points)
