"""A database with Mayfly's tables for each test, as Mayfly's own processes and as an application open it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from mayfly.client import App, use_app
from mayfly.db.database import Database
from mayfly.settings import load
from tests.app_package import NAME, write_app_package
from tests.declared_handlers import use_basic_handlers


@pytest.fixture(autouse=True)
def _few_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default would import all handlers."""
    use_basic_handlers(monkeypatch)


@pytest.fixture
def database(migrated_url: str) -> Iterator[Database]:
    """As a runner opens it."""
    opened = Database(migrated_url)
    yield opened
    opened.close()


@pytest.fixture
def rival(migrated_url: str) -> Iterator[Database]:
    """The same database, opened by another process."""
    opened = Database(migrated_url)
    yield opened
    opened.close()


@pytest.fixture
def application(migrated_url: str) -> Engine:
    """The same database, opened by an application with its own driver settings."""
    return create_engine(migrated_url, poolclass=NullPool)


@pytest.fixture
def app(migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """The app behind `mayfly.enqueue`, on this test's database."""
    monkeypatch.setenv("DATABASE_URL", migrated_url)
    monkeypatch.setenv("MAYFLY_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])  # handlers are also imported from MAYFLY_HOME
    opened = App(load().settings)  # without a snapshot, which no other process reads
    use_app(opened)
    yield opened
    opened.database.close()


@pytest.fixture
def app_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable package with its own migrations."""
    monkeypatch.syspath_prepend(str(write_app_package(tmp_path)))
    monkeypatch.delitem(sys.modules, NAME, raising=False)  # of an earlier test, whose files are gone
    return NAME
