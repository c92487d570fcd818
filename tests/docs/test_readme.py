"""README and docs match the code: links and scripts exist, the SQL runs, the tables are those of the code."""

import re
from pathlib import Path

import pytest

from mayfly.db.database import Database
from mayfly.queue.policy import Backoff

CHECKOUT = Path(__file__).parent.parent.parent
PAGES = sorted([CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").rglob("*.md")])
MAX_README_WORDS = 1200


def test_the_readme_is_short() -> None:
    """It fits into ten minutes of reading; everything else is in docs/."""
    assert len((CHECKOUT / "README.md").read_text().split()) <= MAX_README_WORDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_linked_file_exists(page: Path) -> None:
    """A relative link names a file of the checkout."""
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [each for each in linked if not (page.parent / each).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_script_exists(page: Path) -> None:
    """`scripts/…` in a page is a script that can be run."""
    named = set(re.findall(r"scripts/[a-z-]+(?![\w/])", page.read_text()))

    assert [each for each in named if not (CHECKOUT / each).exists()] == []


def test_the_monitoring_sql_runs(migrated_url: str) -> None:
    """Each statement under "SQL for monitoring" runs unchanged, on every database."""
    page = (CHECKOUT / "docs" / "how-to" / "operate.md").read_text()
    block = re.search(r"## SQL for monitoring\n+```sql\n(.*?)```", page, re.DOTALL)
    assert block
    statements = [each.strip() for each in block[1].split(";") if each.strip()]
    database = Database(migrated_url)

    for statement in statements:
        database.read(lambda connection, statement=statement: connection.execute(statement).all())  # type: ignore[misc]

    database.close()
    assert len(statements) >= 5


def test_the_backoff_table_equals_the_code() -> None:
    """docs/reference/python.md shows the real delays, for the default and for a cap of 300."""
    page = (CHECKOUT / "docs" / "reference" / "python.md").read_text()
    rows = re.findall(r"^\| (?:default|`backoff_cap=300`)[^|]*\|(.*)\|$", page, re.MULTILINE)
    shown = [[int(cell) for cell in row.split("|")] for row in rows]

    expected = [
        [round(backoff.delay(attempt)) for attempt in range(1, 14)]
        for backoff in (Backoff(), Backoff(cap_seconds=300))
    ]
    assert shown == expected
