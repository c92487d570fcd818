"""docs/reference/measurements.md shows measured figures only."""

from scripts.benchmark.cli import PAGE, PAGE_RESULTS, filled_page
from scripts.benchmark.figures import read_records


def test_the_figures_are_measured() -> None:
    """`scripts/bench --write-docs` would not change the page."""
    page = PAGE.read_text()

    assert filled_page(page, read_records(PAGE_RESULTS)) == page
