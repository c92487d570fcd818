"""The README says what is true: its links lead somewhere, its SQL runs, its tables are the code's."""

import re
from pathlib import Path

import pytest

from mayfly.db.database import Database
from mayfly.queue.policy import Backoff

CHECKOUT = Path(__file__).parent.parent.parent
PAGES = sorted([CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    """A relative link names a file of the checkout."""
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())

    assert [each for each in linked if not (page.parent / each).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_script_that_is_named_exists(page: Path) -> None:
    """`scripts/…` in a page is a script that can be run."""
    named = set(re.findall(r"scripts/[a-z-]+(?![\w/])", page.read_text()))

    assert [each for each in named if not (CHECKOUT / each).exists()] == []


def test_the_monitoring_sql_runs(migrated_url: str) -> None:
    """Each statement under "SQL to monitor with" runs as it stands, on every database."""
    page = (CHECKOUT / "README.md").read_text()
    block = re.search(r"### SQL to monitor with\n+```sql\n(.*?)```", page, re.DOTALL)
    assert block
    statements = [each.strip() for each in block[1].split(";") if each.strip()]
    database = Database(migrated_url)

    for statement in statements:
        database.read(lambda connection, statement=statement: connection.execute(statement).all())  # type: ignore[misc]

    database.close()
    assert len(statements) >= 5


def test_the_backoff_table_is_the_codes() -> None:
    """docs/handlers.md shows the delays that are really waited, for the default and for a cap of 300."""
    page = (CHECKOUT / "docs" / "handlers.md").read_text()
    rows = re.findall(r"^\| (?:default|`backoff_cap=300`)[^|]*\|(.*)\|$", page, re.MULTILINE)
    shown = [[int(cell) for cell in row.split("|")] for row in rows]

    expected = [
        [round(backoff.delay(attempt)) for attempt in range(1, 14)]
        for backoff in (Backoff(), Backoff(cap_seconds=300))
    ]
    assert shown == expected
