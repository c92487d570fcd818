"""Consoles that the tests of a module use one after the other: to start one takes longer than most of them do."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.looking import run
from tests.process.console.api import Api
from tests.process.installation import Installation
from tests.shelf import Birth, Shelf, birth_of, restore

Serve = Callable[[Installation], Api]


class Consoles(ExitStack):
    """One for each database, with the same settings; whoever ends or locks one needs one of his own."""

    def __init__(self, shelf: Shelf, homes: pytest.TempPathFactory, serve: Serve) -> None:
        super().__init__()
        self._shelf, self._homes, self._serve = shelf, homes, serve
        self._running: dict[str, tuple[Api, Birth]] = {}

    def like_new(self, engine_name: str) -> Api:
        """As it was just after its start: no rows, no files, no processes but its own, and a token that is new."""
        if engine_name not in self._running:
            self._running[engine_name] = self._start(engine_name)
            return self._running[engine_name][0]
        api, birth = self._running[engine_name]
        clear_home(api)
        run(api.installation.database, lambda connection: restore(connection, birth))
        api.renew_token()
        return api

    def _start(self, engine_name: str) -> tuple[Api, Birth]:
        url = self.enter_context(self._shelf.like_new(engine_name))
        installation = Installation(self._homes.mktemp("console"), url)
        self.callback(installation.end)
        birth = run(installation.database, birth_of)
        api = self._serve(installation)
        self.callback(end, api)
        return api, birth


def clear_home(api: Api) -> None:
    for process in api.installation.processes():
        if process.pid != api.process.pid:
            process.kill()
    for path in api.installation.home.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def end(api: Api) -> None:
    """Whatever all of the tests have asked it: nothing broke."""
    api.process.terminate()
    _out, told = api.process.communicate()
    assert (api.process.returncode, "Traceback" in told) == (0, False), told
