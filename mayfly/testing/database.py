"""Databases for tests: a new SQLite file for each, or one that somebody names, emptied before each."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mayfly.app import current_app, use_app
from mayfly.engine import Database
from mayfly.errors import BadTestDatabase, SharedTestDatabase, UnsafeTestDatabase
from mayfly.registry import forget_local
from mayfly.settings.shape import Secret
from mayfly.settings.values import DATABASE_RULE, database_url, mask_password
from mayfly.testing.apps import InlineApp
from mayfly.testing.clock import pinned_offset
from mayfly.testing.table import empty_tables


@dataclass(frozen=True)
class FreshDatabase:
    """What the fixture `mayfly_db` is: a database with Mayfly's tables, and no jobs in it yet."""

    url: str


@contextmanager
def using_database(url: str) -> Iterator[FreshDatabase]:
    """Until its end all that this process enqueues, drains and asserts is in that database, which has the tables.

    Python's clock rules, so that freezegun can stop it. Handlers that were declared inside of a test are forgotten.
    """
    before = current_app()
    full_url = _read_url(url)
    app = InlineApp(before.settings._replace(database_url=Secret(full_url)))
    use_app(app)
    try:
        with pinned_offset():
            yield FreshDatabase(full_url)
    finally:
        app.close()
        use_app(before)
        forget_local()


def make_template(path: Path) -> None:
    """A SQLite file to be copied: to migrate one takes as long as a hundred tests."""
    from mayfly.migrations import migrate

    url = f"sqlite:///{path}"
    migrate(url)
    database = Database(url)
    database.read(lambda _connection: None)  # whoever connects first switches the WAL on; then it is copied too
    database.close()


def copy_template(template: Path, path: Path) -> str:
    shutil.copyfile(template, path)
    return f"sqlite:///{path}"


def prepare_named(url: str, worker: str | None) -> str:
    """Once a session: the URL for this process, migrated. `worker` is its name among those that share the tests."""
    own = _read_url(url.replace("{worker}", worker or "main"))
    name = own.partition("?")[0].rpartition("/")[2]
    if "test" not in name.lower():
        raise UnsafeTestDatabase(mask_password(own))
    if worker is not None and "{worker}" not in url:
        raise SharedTestDatabase(mask_password(own))
    from mayfly.migrations import migrate

    migrate(own)
    return own


def _read_url(url: str) -> str:
    """As DATABASE_URL is read."""
    try:
        return database_url(url, current_app().settings.home)
    except ValueError as error:
        raise BadTestDatabase(str(error) or f"must be {DATABASE_RULE}") from None


def empty(url: str) -> None:
    """Before each test, not after it: what a test that failed has left can be looked at."""
    database = Database(url)
    database.run(empty_tables)
    database.close()
