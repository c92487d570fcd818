"""A console for each test, on each database, with one lane for outside workers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly.migrations import migrate
from tests.databases import Databases
from tests.process.console.api import Api
from tests.process.installation import Installation

OUTSIDE = {"LANES__OUTSIDE__EXTERNAL": "true"}


@pytest.fixture
def api(migrated_url: str, tmp_path: Path) -> Iterator[Api]:
    made = Installation(tmp_path, migrated_url, OUTSIDE)
    yield Api(made)
    made.end()


@pytest.fixture
def serving(tmp_path: Path, databases: Databases) -> Iterator[Callable[..., Api]]:
    """On SQLite alone, with settings of the test's own: for what no database can make a difference to."""
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(tmp_path, url, OUTSIDE)

        def serve(**settings: str) -> Api:
            return Api(made, settings)

        yield serve
        made.end()
