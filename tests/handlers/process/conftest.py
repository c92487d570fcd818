"""Real installations with the handlers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import Databases
from tests.handlers.conftest import migrate_all
from tests.handlers.process.installation import HandlersInstallation


@pytest.fixture
def installation(platform_url: str, tmp_path: Path) -> Iterator[HandlersInstallation]:
    """On SQLite, or on every database for marked tests."""
    made = HandlersInstallation(tmp_path, platform_url)
    yield made
    made.end()


@pytest.fixture
def embedded(databases: Databases, tmp_path: Path) -> Iterator[HandlersInstallation]:
    """On SQLite only."""
    with databases.fresh("sqlite", migrate_all) as url:
        made = HandlersInstallation(tmp_path, url)
        yield made
        made.end()
