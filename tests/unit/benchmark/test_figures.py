"""The figures of a report: medians, spreads, ratios, goals."""

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.benchmark.figures import (
    Figure,
    Goal,
    Record,
    alternately,
    at_least,
    at_most,
    format_value,
    format_values,
    markdown_table,
    merge_record,
    plain_table,
    read_records,
    scale_table,
    write_records,
)

FIGURE = Figure("drain 10 jobs", "jobs/s", (90.0, 80.0), (100.0, 100.0), at_least(0.9))
RECORD = Record("drain", "sqlite", "bare", 2, True, "2026-01-01T00:00:00+00:00", {"cores": 2}, (FIGURE,))
FAILED = replace(RECORD, engine="mariadb", figures=(), error="it broke")


def test_the_ratio_is_that_of_the_medians() -> None:
    """A single slow run of either does not change it."""
    figure = Figure("x", "jobs/s", ours=(80, 90, 10), yardstick=(100, 400, 95))

    assert (figure.value, figure.ratio) == (80, 0.8)


def test_without_a_reference_there_is_no_ratio() -> None:
    """Nor with a reference of zero, such as the server of an embedded database."""
    assert Figure("x", "s", (1,)).ratio is None
    assert Figure("x", "s", (1,), (0,)).ratio is None


@pytest.mark.parametrize(
    ("figure", "reached"),
    [
        (Figure("x", "", (85,), (100,), at_least(0.85)), True),
        (Figure("x", "", (84,), (100,), at_least(0.85)), False),
        (Figure("x", "", (130,), (100,), at_most(1.3)), True),
        (Figure("x", "", (131,), (100,), at_most(1.3)), False),
        (Figure("x", "", (54,), (100,), Goal(at_most=55, of_ratio=False)), True),
        (Figure("x", "", (56,), (1000,), Goal(at_most=55, of_ratio=False)), False),
        (Figure("x", "", (56,), (1000,)), None),
    ],
)
def test_a_goal_applies_to_the_ratio_or_to_the_figure(figure: Figure, reached: bool | None) -> None:
    """A value equal to the bound reaches the goal; without a goal there is no verdict."""
    assert figure.is_reached is reached


def test_runs_alternate() -> None:
    """Mayfly, the reference, Mayfly again: a noisy minute affects both."""
    order: list[str] = []

    ours, theirs = alternately(lambda: order.append("ours"), lambda: order.append("theirs"), 3)

    assert order == ["ours", "theirs"] * 3
    assert (len(ours), len(theirs)) == (3, 3)


def test_values_are_shown_with_significant_digits() -> None:
    """The spread is added if there is one."""
    assert [format_value(each) for each in (0, 0.12345, 1.5, 99.4, 123.4, 24305.2)] == [
        *("0", "0.123", "1.5", "99.4", "123", "24,305")
    ]
    assert format_values((3, 1, 2)) == "2 (1–3)"
    assert (format_values((7,)), format_values((1, 1)), format_values(())) == ("7", "1", "")


def test_a_goal_shows_its_bound() -> None:
    """In the format of the table."""
    assert [at_least(0.85).text, at_most(1.3).text, Goal(at_least=21_000, of_ratio=False).text] == [
        *("≥ 0.85", "≤ 1.3", "≥ 21,000")
    ]


def test_records_survive_a_round_trip_through_their_file(tmp_path: Path) -> None:
    """The JSON file has everything that the tables need."""
    write_records(tmp_path / "results.json", [RECORD, FAILED])

    assert read_records(tmp_path / "results.json") == [RECORD, FAILED]


def test_a_new_record_replaces_the_old_one() -> None:
    """It is that of the same benchmark and database; others stay in the report's order, unknown ones are dropped."""
    order = [("drain", "mariadb"), ("drain", "sqlite"), ("idle", "sqlite")]
    other, gone = replace(RECORD, benchmark="idle"), replace(RECORD, benchmark="gone")
    new = replace(RECORD, times=9)

    assert merge_record([other, RECORD, gone], new, order) == [new, other]


def test_goals_are_checked_at_full_size_only() -> None:
    """A benchmark that failed is a failure at any size."""
    assert RECORD.is_missed
    assert not replace(RECORD, is_full_size=False).is_missed
    assert replace(FAILED, is_full_size=False).is_missed


def test_the_tables_show_each_figure_and_each_failure() -> None:
    """With medians, spreads, ratio, goal and verdict."""
    heading, figure, failure = plain_table([RECORD, FAILED]).splitlines()

    assert heading.split() == ["what", "database", "Mayfly", "yardstick", "unit", "ratio", "goal"]
    assert "85 (80–90)" in figure
    assert figure.endswith("0.85   ≥ 0.9  MISSED")
    assert failure.split() == ["drain", "mariadb", "FAILED"]
    assert "| 85 (80–90) | 100 | jobs/s | 0.85 | ≥ 0.9 | MISSED |" in markdown_table([RECORD])
    assert "| not judged |" in markdown_table([replace(RECORD, is_full_size=False)])


def test_the_table_of_scale_has_a_row_per_number_of_dispatchers() -> None:
    """One dispatcher was the yardstick of the others, and is shown once."""
    figures = tuple(
        Figure(f"drain 10 jobs in 2 lanes, {hosts} dispatchers{what}", unit, (value,), (reference,))
        for hosts, factor in ((4, 1), (16, 2))
        for what, unit, value, reference in (
            ("", "jobs/s", 150 * factor, 100),
            (": server CPU per job", "µs", 40 * factor, 30),
            (": client CPU per job", "µs", 60 * factor, 50),
        )
    )

    rows = scale_table([replace(RECORD, benchmark="hosts", engine="mariadb", figures=figures), RECORD]).splitlines()[
        2:
    ]

    assert rows == [
        "| mariadb | 1 | 100 | 30 | 50 |",
        "| mariadb | 4 | 150 | 40 | 60 |",
        "| mariadb | 16 | 300 | 80 | 120 |",
    ]
