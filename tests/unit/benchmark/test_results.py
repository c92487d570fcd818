"""What was measured is kept: each line by itself, and with it what others there were."""

from dataclasses import replace
from pathlib import Path

from scripts.benchmark.figures import Curve, Figure, at_least
from scripts.benchmark.report import markdown_table, plain_table
from scripts.benchmark.results import FILE, Record, merged, read_records, write_records

FIGURE = Figure("drain 10 jobs", "jobs/s", (90.0, 80.0), (100.0, 100.0), at_least(0.9))
CURVE = Curve("drain", "SQLite", "Mayfly", ((0.0, 0.0), (1.5, 10.0)))
RECORD = Record(
    "drain", "sqlite", 1.0, 2, True, "2026-01-01T00:00:00+00:00", 3.0, {"cores": 2}, (FIGURE,), (CURVE,), None
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """The JSON holds everything that the table and the plots need."""
    failed = replace(RECORD, engine="mariadb", figures=(), curves=(), error="it broke")

    write_records(tmp_path / FILE, [RECORD, failed])

    assert read_records(tmp_path / FILE) == [RECORD, failed]


def test_a_new_record_takes_the_place_of_the_old_one() -> None:
    """Of the same line and database; others stay, in the order of the report, and what no longer exists goes."""
    order = [("drain", "mariadb"), ("drain", "sqlite"), ("idle", "sqlite")]
    other, gone = replace(RECORD, line="idle"), replace(RECORD, line="gone")
    new = replace(RECORD, seconds=9.0)

    assert merged([other, RECORD, gone], new, order) == [new, other]


def test_a_goal_counts_only_where_it_is_judged() -> None:
    """At a small scale a ratio means little; a line that failed is a failure at any."""
    assert RECORD.is_missed
    assert not replace(RECORD, judged=False).is_missed
    assert replace(RECORD, judged=False, error="it broke").is_missed


def test_the_table_shows_each_figure_and_each_failure() -> None:
    """With medians, spreads, ratio, goal and verdict."""
    failed = replace(RECORD, engine="mariadb", figures=(), error="it broke")

    heading, figure, failure = plain_table([RECORD, failed]).splitlines()

    assert heading.split() == ["what", "database", "Mayfly", "yardstick", "unit", "ratio", "goal"]
    assert figure.split("  ")[0] == "drain 10 jobs"
    assert "85 (80–90)" in figure
    assert figure.endswith("0.85   ≥ 0.9  MISSED")
    assert failure.split() == ["drain", "mariadb", "FAILED"]
    assert "| 85 (80–90) | 100 | jobs/s | 0.85 | ≥ 0.9 | MISSED |" in markdown_table([RECORD])
    assert "| not judged |" in markdown_table([replace(RECORD, judged=False)])
