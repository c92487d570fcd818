"""A console with pages for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.console.api import Api
from tests.process.installation import Installation
from tests.process.pages.visitor import Visitor, serve


@pytest.fixture
def console(migrated_url: str, tmp_path: Path) -> Iterator[Api]:
    """On each database."""
    made = Installation(tmp_path, migrated_url)
    yield serve(made)
    made.end()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Api]]:
    """On SQLite alone, with settings of the test's own: for what no database can make a difference to."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    made.run("mayfly", "migrate")

    def start(**settings: str) -> Api:
        return serve(made, **settings)

    yield start
    made.end()


@pytest.fixture
def visitor(console: Api) -> Visitor:
    return Visitor(console.port).log_in()
