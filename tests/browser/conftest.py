"""One Chromium and one filled console per process, and a new browser context per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from mayfly.schema.migrations import migrate
from tests.browser.browsers import Visitors, chromium
from tests.browser.consoles import Console
from tests.browser.sample import SETTINGS, fill, write_files
from tests.databases import Databases
from tests.process.installation import Installation


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Only for this package: Playwright keeps an event loop running, and other tests start their own."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def visitors(browser: Browser) -> Iterator[Visitors]:
    """Fails the test for unexpected problems on its pages.

    Request it after a private console, so that it closes its pages before the console stops.
    """
    made = Visitors(browser)
    yield made
    made.leave()


@pytest.fixture
def page(visitors: Visitors) -> Page:
    """An empty page, without a console."""
    return visitors.open()


@pytest.fixture(scope="package")
def shop(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console with a day of history, for tests that change only their own jobs."""
    home = tmp_path_factory.mktemp("shop")
    write_files(home)
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(home, url, SETTINGS)
        fill(made.database)
        yield Console(made)
        made.end()


@pytest.fixture(scope="package")
def strict(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A console with short sessions, but long enough for a page on a busy machine."""
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(tmp_path_factory.mktemp("strict"), url)
        yield Console(made, {"CONSOLE_SESSION": "5"})
        made.end()


@pytest.fixture
def console(migrated_url: str, tmp_path: Path) -> Iterator[Console]:
    """A private console, on each database."""
    made = Installation(tmp_path, migrated_url)
    yield Console(made)
    made.end()
