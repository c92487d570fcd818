"""What the idle cycle says and records is what the full path would."""

from dispatcher.idle import FIGURES, SUMMARY
from dispatcher.summary import CycleSummary, cycle_row, summary_lines

IDLE = CycleSummary(cycle_id=1, pending="0", planned=0, ends=(), duration_ms=42)


def test_the_summary_is_that_of_a_cycle_without_runners() -> None:
    """Line by line, in the words of summary.py."""
    assert [line.format(duration_ms=42) for line in SUMMARY] == summary_lines(IDLE)


def test_the_figures_are_those_of_a_cycle_without_runners() -> None:
    """Column by column; only how long it took is not known beforehand."""
    assert cycle_row(IDLE) == {**FIGURES, "duration_ms": 42}
