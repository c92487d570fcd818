"""The pytest plugin: the fixture `mayfly_db`.

Every pytest of an environment that has Mayfly loads this, so it imports nothing until a test asks for it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mayfly.testing.database import FreshDatabase

OPTION = "mayfly_db_url"


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "the database for mayfly_db; {worker} in it is gw0, gw1, … (default: a new SQLite file for each test)"
    parser.addini(OPTION, told, default="")


@pytest.fixture(scope="session")
def mayfly_db_url(pytestconfig: pytest.Config) -> str | None:
    """The database that `mayfly_db` empties before each test, from pytest's settings; a conftest.py may differ."""
    return str(pytestconfig.getini(OPTION)) or None


@pytest.fixture(scope="session")
def mayfly_db_template(
    mayfly_db_url: str | None, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Path | str:
    """What is migrated once: a file to copy, or the URL of what is emptied."""
    from mayfly.errors import MayflyError
    from mayfly.testing import database

    if mayfly_db_url is None:
        template = tmp_path_factory.mktemp("mayfly") / "template.db"
        database.make_template(template)
        return template
    worker = getattr(pytestconfig, "workerinput", {}).get("workerid")
    try:
        return database.prepare_named(mayfly_db_url, worker)
    except MayflyError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)  # not where it is caught: the sentence is all there is to say


@pytest.fixture
def mayfly_db(
    mayfly_db_template: Path | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator["FreshDatabase"]:
    """A database without jobs, for this test and what it calls; `mayfly_db.url` leads to it."""
    from mayfly.testing import database

    if isinstance(mayfly_db_template, Path):
        url = database.copy_template(mayfly_db_template, tmp_path / "mayfly.db")
    else:
        url = mayfly_db_template
        database.empty(url)
    monkeypatch.setenv("DATABASE_URL", url)  # for programs that the test starts
    with database.using_database(url) as fresh:
        yield fresh
