"""Databases that nobody has used: an index is named by its job, and its tables are not those of a migration."""

from collections.abc import Iterator

import pytest

from tests.databases import Databases
from tests.handlers.conftest import migrate_all


@pytest.fixture
def platform_url(engine_name: str, databases: Databases) -> Iterator[str]:
    with databases.fresh(engine_name, migrate_all) as url:
        yield url
