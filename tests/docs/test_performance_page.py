"""docs/performance.md shows what was measured, and nothing that was typed."""

from pathlib import Path

from scripts.benchmark.docs import COPY, PAGE, filled
from scripts.benchmark.results import read_records

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_figures_are_those_that_were_measured() -> None:
    """`scripts/bench --write-docs` would write the page as it is."""
    page = (DOCS / PAGE).read_text()
    charts = [path.name for path in sorted(DOCS.glob("performance-*.svg"))]

    assert filled(page, read_records(DOCS / COPY), charts) == page
