"""New databases: index tables are named after job ids, and are not created by a migration."""

from collections.abc import Iterator

import pytest

from tests.databases import Databases
from tests.handlers.conftest import migrate_all


@pytest.fixture
def platform_url(engine_name: str, databases: Databases) -> Iterator[str]:
    with databases.fresh(engine_name, migrate_all) as url:
        yield url
