"""Databases with the app_ tables."""

from collections.abc import Iterator

import pytest
from freezegun import freeze_time

from mayfly.registry import load_handlers, packages_named
from mayfly.schema.migrations import app_tables, migrate
from mayfly.testing import using_database
from tests.database_pool import DatabasePool
from tests.declared_handlers import scan_packages_once
from tests.handlers.community import Community

# Imported before any test hides declarations: a module is imported only once.
assert not load_handlers(["handlers"]).failures


def migrate_all(url: str) -> None:
    """Mayfly's tables and the app_ tables."""
    migrate(url)
    for tables in app_tables(packages_named(["handlers"])):
        migrate(url, tables)


@pytest.fixture(autouse=True)
def _known_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    scan_packages_once(monkeypatch)


@pytest.fixture
def platform_url(engine_name: str, database_pool: DatabasePool) -> Iterator[str]:
    """The URL of an empty database with all tables."""
    with database_pool.clean_database(engine_name, migrate_all) as url:
        yield url


@pytest.fixture
def platform(platform_url: str) -> Iterator[str]:
    """The same, as the default database of enqueue() and drain()."""
    with using_database(platform_url):
        yield platform_url


@pytest.fixture
def _noon(platform: str) -> Iterator[None]:
    """No day ends during a test: for daily actions and daily quotas."""
    with freeze_time("2026-05-04 12:00:00", tick=True):
        yield


@pytest.fixture
def _bulk_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings of unsubscribe links."""
    monkeypatch.setenv("UNSUBSCRIBE_URL", "https://shop.example/unsubscribe?who={token}")
    monkeypatch.setenv("UNSUBSCRIBE_SECRET", "s3cret")


@pytest.fixture
def community(platform: str) -> Iterator[Community]:
    """Without people."""
    made = Community(platform)
    yield made
    made.database.close()
