"""Consoles with one lane for outside workers: one a module and database, and those that a test has for itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mayfly.schema.migrations import migrate
from tests.databases import Databases
from tests.process.console.api import Api
from tests.process.console.shared import Consoles
from tests.process.installation import Installation
from tests.shelf import Shelf

OUTSIDE = {"LANES__OUTSIDE__EXTERNAL": "true"}


def serve(installation: Installation) -> Api:
    installation.settings = OUTSIDE
    return Api(installation)


@pytest.fixture(scope="module")
def consoles(shelf: Shelf, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consoles]:
    with Consoles(shelf, tmp_path_factory, serve) as opened:
        yield opened


@pytest.fixture
def api(engine_name: str, consoles: Consoles) -> Api:
    """On each database, like new."""
    return consoles.like_new(engine_name)


@pytest.fixture
def served(consoles: Consoles) -> Api:
    """The same on SQLite alone: for what no database can make a difference to."""
    return consoles.like_new("sqlite")


@pytest.fixture
def own_api(migrated_url: str, tmp_path: Path) -> Iterator[Api]:
    """On each database, of the test's own: to be ended."""
    made = Installation(tmp_path, migrated_url)
    yield serve(made)
    made.end()


@pytest.fixture
def serving(tmp_path: Path, databases: Databases) -> Iterator[Callable[..., Api]]:
    """On SQLite, with settings of the test's own."""
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(tmp_path, url, OUTSIDE)

        def start(**settings: str) -> Api:
            return Api(made, settings)

        yield start
        made.end()
