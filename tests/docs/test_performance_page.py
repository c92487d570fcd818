"""docs/performance.md shows what was measured, and nothing that was typed."""

import re
from pathlib import Path

from scripts.benchmark.docs import COPY, PAGE, filled
from scripts.benchmark.registry import LINES
from scripts.benchmark.results import read_records

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_figures_are_those_that_were_measured() -> None:
    """`scripts/bench --write-docs` would write the page as it is."""
    page = (DOCS / PAGE).read_text()
    charts = [path.name for path in sorted(DOCS.glob("performance-*.svg"))]

    assert filled(page, read_records(DOCS / COPY), charts) == page


def test_every_line_is_explained() -> None:
    """The table says against what each is measured; the profile has a section of its own."""
    page = (DOCS / PAGE).read_text()
    explained = re.search(r"\| line \| against \|\n(.*?)\n\n", page, re.DOTALL)
    assert explained

    named = set(re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in explained[1].splitlines())))

    assert named == set(LINES) - {"profile"}
    assert "scripts/bench --only profile" in page
