"""A console for each test, on each database, with one lane for outside workers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.console.api import Api
from tests.process.installation import Installation

OUTSIDE = {"LANES__OUTSIDE__EXTERNAL": "true"}


@pytest.fixture
def api(migrated_url: str, tmp_path: Path) -> Iterator[Api]:
    made = Installation(tmp_path, migrated_url, OUTSIDE)
    yield Api(made)
    made.end()


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[..., Api]]:
    """On SQLite alone, with settings of the test's own: for what no database can make a difference to."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", OUTSIDE)
    made.run("mayfly", "migrate")

    def serve(**settings: str) -> Api:
        return Api(made, settings)

    yield serve
    made.end()
