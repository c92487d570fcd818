"""The database server goes away while a page is open: a notice, and recovery without a reload."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.browsers import Visitors
from tests.browser.consoles import Console
from tests.process.installation import Installation
from tests.servers import PrivateServer

SOON = 6000  # milliseconds, by the clock of the page


@pytest.fixture
def console(restartable_url: str, tmp_path: Path) -> Iterator[Console]:
    made = Installation(tmp_path, restartable_url)
    yield Console(made)
    made.end()


# The page does not depend on which server is down; the other one runs with --all.
@pytest.mark.parametrize(
    "module_server", ["mariadb", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)
def test_an_open_page_survives_a_database_outage(
    console: Console, visitors: Visitors, restartable_server: PrivateServer
) -> None:
    """It keeps its content and shows a notice; a new page shows an error and reloads itself."""
    visitors.expect("503")
    [job_id] = console.installation.enqueue("noop", lane="mail")
    page = visitors.open(console, "olga", "/login")
    page.clock.install()
    page.goto("/jobs?lane=mail")
    restartable_server.kill()

    page.clock.run_for(SOON)
    expect(page.get_by_text("The database is unavailable.")).to_be_visible()
    expect(page.get_by_role("link", name=str(job_id), exact=True)).to_be_visible()
    late = visitors.open(console, "vera", "/lanes")
    expect(late.get_by_role("heading", level=1)).to_have_text("Database unavailable")
    restartable_server.start()
    page.clock.run_for(SOON)

    expect(page.get_by_text("The database is unavailable.")).to_be_hidden()
    expect(late.get_by_role("heading", level=1)).to_have_text("Lanes")
