"""Databases with the app_ tables."""

from collections.abc import Iterator

import pytest

from mayfly.registry import load_handlers, packages_named
from mayfly.schema.migrations import app_tables, migrate
from mayfly.testing import using_database
from tests.database_pool import Shelf
from tests.handlers.community import Community

# Declared before any test hides what is declared: a module is imported once.
assert not load_handlers(["handlers"]).failures


def migrate_all(url: str) -> None:
    """Mayfly's tables and the app_ tables."""
    migrate(url)
    for tables in app_tables(packages_named(["handlers"])):
        migrate(url, tables)


@pytest.fixture
def platform_url(engine_name: str, shelf: Shelf) -> Iterator[str]:
    """The URL of an empty database with all tables."""
    with shelf.like_new(engine_name, migrate_all) as url:
        yield url


@pytest.fixture
def platform(platform_url: str) -> Iterator[str]:
    """The same, as the default database of enqueue() and drain()."""
    with using_database(platform_url):
        yield platform_url


@pytest.fixture
def community(platform: str) -> Iterator[Community]:
    """Without people."""
    made = Community(platform)
    yield made
    made.database.close()
