"""Consoles for tests: shared ones, because starting one takes longer than most tests, and private ones.

The fixture `serve` starts them; a package or module overrides it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mayfly.schema.migrations import migrate
from tests.database_pool import DatabasePool, InitialRows, initial_rows_of, restore
from tests.databases import Databases
from tests.process.console.api import Api, Serve, serve_api
from tests.process.installation import Installation
from tests.sqlalchemy_engines import run


class Consoles(ExitStack):
    """One per database and `serve` fixture. A test that stops or locks a console needs a private one."""

    def __init__(self, database_pool: DatabasePool, homes: pytest.TempPathFactory) -> None:
        super().__init__()
        self._pool, self._homes = database_pool, homes
        self._running: dict[tuple[str, Serve], tuple[Api, InitialRows]] = {}

    def like_new(self, engine_name: str, serve: Serve) -> Api:
        """As just after its start: no rows, no files, no other processes, and a new token."""
        key = engine_name, serve
        if key not in self._running:
            self._running[key] = self._start(engine_name, serve)
            return self._running[key][0]
        api, initial = self._running[key]
        clear_home(api)
        run(api.installation.database, lambda connection: restore(connection, initial))
        api.renew_token()
        return api

    def _start(self, engine_name: str, serve: Serve) -> tuple[Api, InitialRows]:
        url = self.enter_context(self._pool.clean_database(engine_name))
        installation = Installation(self._homes.mktemp("console"), url)
        self.callback(installation.end)
        initial = run(installation.database, initial_rows_of)
        api = serve(installation)
        self.callback(stop, api)
        return api, initial


def clear_home(api: Api) -> None:
    for process in api.installation.processes():
        if process.pid != api.process.pid:
            process.kill()
    for path in api.installation.home.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def stop(api: Api) -> None:
    """No test may have caused a traceback."""
    api.process.terminate()
    _out, log = api.process.communicate()
    assert (api.process.returncode, "Traceback" in log) == (0, False), log


@pytest.fixture(scope="session")
def consoles(database_pool: DatabasePool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consoles]:
    with Consoles(database_pool, tmp_path_factory) as opened:
        yield opened


@pytest.fixture
def serve() -> Serve:
    return serve_api


@pytest.fixture
def api(engine_name: str, consoles: Consoles, serve: Serve) -> Api:
    """Shared, on the database of the test."""
    return consoles.like_new(engine_name, serve)


@pytest.fixture
def served(consoles: Consoles, serve: Serve) -> Api:
    """Shared, always on SQLite: for tests that do not depend on the database."""
    return consoles.like_new("sqlite", serve)


@pytest.fixture
def own_api(migrated_url: str, tmp_path: Path, serve: Serve) -> Iterator[Api]:
    """Private, on the database of the test: it may be stopped."""
    made = Installation(tmp_path, migrated_url)
    yield serve(made)
    made.end()


@pytest.fixture
def restartable_api(restartable_url: str, tmp_path: Path, serve: Serve) -> Iterator[Api]:
    """Private, on a server that may be killed."""
    made = Installation(tmp_path, restartable_url)
    yield serve(made)
    made.end()


@pytest.fixture
def serving(tmp_path: Path, databases: Databases, serve: Serve) -> Iterator[Callable[..., Api]]:
    """Private, on SQLite, with settings of the test."""
    with databases.fresh("sqlite", migrate) as url:
        made = Installation(tmp_path, url)

        def start(**settings: str) -> Api:
            return serve(made, **settings)

        yield start
        made.end()
