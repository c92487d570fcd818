"""docs/reference/measurements.md and docs/explanation/performance.md show measured figures only."""

from scripts.benchmark.cli import PAGE, PAGE_RESULTS, PERFORMANCE_PAGE, filled_page, filled_performance_page
from scripts.benchmark.figures import HEADLINES, read_records


def test_the_figures_are_measured() -> None:
    """`scripts/bench --write-docs` would not change the page."""
    page = PAGE.read_text()

    assert filled_page(page, read_records(PAGE_RESULTS)) == page


def test_the_headline_figures_are_measured() -> None:
    """Those of the page about performance too, and all of them."""
    page = PERFORMANCE_PAGE.read_text()
    table = page.partition("<!-- /results -->")[0]

    assert filled_performance_page(page, read_records(PAGE_RESULTS)) == page
    assert (table.count("\n| "), "|  |" in table) == (len(HEADLINES) + 2, False)
