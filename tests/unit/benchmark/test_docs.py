"""docs/performance.md is filled from the results."""

from dataclasses import replace
from pathlib import Path

from scripts.benchmark.docs import COPY, PAGE, filled, write_docs
from scripts.benchmark.results import read_records
from tests.unit.benchmark.test_results import RECORD

FACTS = {
    "mayfly": "1.0 (abc)",
    "libraries": {"PyMySQL": "1.1"},
    "cores": 2,
    "cpu": "abacus",
    "memory_gb": 4,
    "kernel": "6.1",
    "python": "3.11.7",
    "server": "3.40.1",
}
MEASURED = replace(RECORD, environment=FACTS)
PROFILED = replace(MEASURED, line="profile")
EMPTY = """Before.

<!-- results: written by scripts/bench --write-docs -->
old
<!-- /results -->

Between.

<!-- profile: written by scripts/bench --write-docs -->
<!-- /profile -->

After.
"""


def test_each_block_is_written_and_nothing_else() -> None:
    """Figures and plots above, the profile below; written twice it is the same."""
    page = filled(EMPTY, [MEASURED, PROFILED], ["performance-drain.svg"])

    above, _, below = page.partition("Between.")
    assert "old" not in page
    assert above.startswith("Before.\n")
    assert "| drain 10 jobs | sqlite | 85 (80–90) |" in above
    assert "2 cores of abacus" in above
    assert "SQLite 3.40.1" in above
    assert "](performance-drain.svg)" in above
    assert "| drain 10 jobs (jobs/s) |" in below
    assert below.endswith("\nAfter.\n")
    assert filled(page, [MEASURED, PROFILED], ["performance-drain.svg"]) == page


def test_a_smaller_scale_is_said() -> None:
    """Nobody should take a tenth for the whole."""
    page = filled(EMPTY, [replace(MEASURED, scale=0.1)], [])

    assert "At 0.1 of the full size, so the goals are not judged." in page
    assert "Nothing has been measured yet." in page.partition("Between.")[2]


def test_the_page_comes_with_its_plots_and_its_source(tmp_path: Path) -> None:
    """So that anyone can tell where a figure is from."""
    (tmp_path / PAGE).write_text(EMPTY)

    write_docs([MEASURED], tmp_path)

    assert read_records(tmp_path / COPY) == [MEASURED]
    assert (tmp_path / "performance-drain.svg").read_text().startswith("<svg")
    assert "85 (80–90)" in (tmp_path / PAGE).read_text()
