"""One Chromium and one console for the tests of this floor that a process runs; a new context for each of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from mayfly.schema.migrations import migrate
from tests.browser.browsers import Visitors, chromium
from tests.browser.consoles import Console
from tests.browser.sample import SETTINGS, fill
from tests.browser.sample.schedules import SCHEDULE
from tests.databases import Databases
from tests.process.installation import Installation


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """No longer than this floor: Playwright keeps an event loop running, and other tests start their own."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def visitors(browser: Browser) -> Iterator[Visitors]:
    """Who opens pages; at the end nothing may have gone wrong on any of them.

    Asked for after a console of the test's own, so that they leave before it ends.
    """
    made = Visitors(browser)
    yield made
    made.leave()


@pytest.fixture
def page(visitors: Visitors) -> Page:
    """An empty one, without a console."""
    return visitors.open()


@pytest.fixture(scope="package")
def shop(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """The console of a shop with a day behind it, for all tests that change nothing but what they made themselves."""
    home = tmp_path_factory.mktemp("shop")
    (home / "cron.d").mkdir()
    (home / "cron.d" / "schedule").write_text(SCHEDULE)
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(home, url, SETTINGS)
        fill(made.database)
        yield Console(made)
        made.end()


@pytest.fixture(scope="package")
def strict(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One whose sessions are soon over, but not before a busy machine has shown a page."""
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(tmp_path_factory.mktemp("strict"), url)
        yield Console(made, {"CONSOLE_SESSION": "5"})
        made.end()


@pytest.fixture
def console(migrated_url: str, tmp_path: Path) -> Iterator[Console]:
    """One of the test's own, on each database."""
    made = Installation(tmp_path, migrated_url)
    yield Console(made)
    made.end()
