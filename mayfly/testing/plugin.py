"""The pytest plugin: the fixture `mayfly_db`.

pytest loads it in every environment that has Mayfly, so it imports nothing until a test uses the fixture.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mayfly
from mayfly import testing

if TYPE_CHECKING:
    from mayfly.testing.database import FreshDatabase

OPTION = "mayfly_db_url"


def pytest_addoption(parser: pytest.Parser) -> None:
    meaning = "the database for mayfly_db; {worker} in it is gw0, gw1, … (default: a new SQLite file for each test)"
    parser.addini(OPTION, meaning, default="")


@pytest.fixture(scope="session")
def mayfly_db_url(pytestconfig: pytest.Config) -> str | None:
    """The database that `mayfly_db` empties before each test, from pytest's settings; conftest.py may override it."""
    return str(pytestconfig.getini(OPTION)) or None


@pytest.fixture(scope="session")
def mayfly_db_template(
    mayfly_db_url: str | None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], str]:
    """Migrates once; returns a function that prepares the database of one test and returns its URL."""
    from mayfly.testing.database import prepare  # pytest loads this plugin for projects that never use it

    worker = getattr(pytestconfig, "workerinput", {}).get("workerid")
    try:
        return prepare(mayfly_db_url, worker, tmp_path_factory.mktemp("mayfly"))
    except mayfly.MayflyError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)  # outside of `except`: the report shows only the sentence


@pytest.fixture
def mayfly_db(
    mayfly_db_template: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["FreshDatabase"]:
    """A database without jobs for this test; `mayfly_db.url` is its URL."""
    url = mayfly_db_template(tmp_path)
    monkeypatch.setenv("DATABASE_URL", url)  # for programs that the test starts
    with testing.using_database(url) as fresh:
        yield fresh
