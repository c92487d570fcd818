"""A real installation for each test, on each database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mayfly.schema.migrations import migrate
from tests.databases import Databases
from tests.process.installation import Installation


@pytest.fixture
def installation(migrated_url: str, tmp_path: Path) -> Iterator[Installation]:
    made = Installation(tmp_path, migrated_url)
    yield made
    made.end()


@pytest.fixture
def embedded(databases: Databases, tmp_path: Path) -> Iterator[Installation]:
    """On SQLite only, for tests that do not depend on the database."""
    databases.copy_file(migrate, tmp_path / "mayfly.db")
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    yield made
    made.end()


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Installation]:
    """The same without its database file, which is created on first use, like a user's."""
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db")
    yield made
    made.end()
