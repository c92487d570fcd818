"""Routes that modules of HANDLERS contribute to the console."""

import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from console import hooks
from mayfly.errors import BadRoutes
from mayfly.log import Log
from mayfly.registry import Registry, contributed_routes, load_handlers

AREA = "__handlers__ = ()\n__routes__ = {routes}\n"
ROUTES = "async def {name}(scope, receive, send): ...\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of HANDLERS, and no module of it imported by an earlier test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [each for each in sys.modules if each.startswith("meadow_for_tests")]:
        monkeypatch.delitem(sys.modules, name)
    made = tmp_path / "meadow_for_tests"
    made.mkdir()
    return made


def contributing(package: Path, routes: dict[str, str]) -> Registry:
    (package / "__init__.py").write_text(AREA.format(routes=routes))
    return load_handlers([package.name])


class Lines(Log):
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, message: Any) -> None:
        self.texts.append(message.text)


def paths(app: FastAPI) -> list[str]:
    return [str(getattr(each, "path", "")) for each in app.routes]


def test_an_application_is_mounted_under_its_name(package: Path) -> None:
    """At /hooks/NAME."""
    (package / "web.py").write_text(ROUTES.format(name="bees"))
    app, log = FastAPI(), Lines()

    hooks.mount(app, contributing(package, {"bees": "meadow_for_tests.web"}), log)

    assert (paths(app)[-1], log.texts) == ("/hooks/bees", [])


def test_broken_routes_do_not_stop_the_console(package: Path) -> None:
    """They are logged, and the others are served."""
    (package / "web.py").write_text(ROUTES.format(name="bees"))
    app, log = FastAPI(), Lines()

    hooks.mount(app, contributing(package, {"ants": "meadow_for_tests.none", "bees": "meadow_for_tests.web"}), log)

    assert paths(app)[-1] == "/hooks/bees"
    assert "/hooks/ants" not in paths(app)
    [line] = log.texts
    assert line.startswith("Routes /hooks/ants are not served: meadow_for_tests.none cannot be imported")


@pytest.mark.parametrize("name", ["", "a/b", "..", "Bees"])
def test_a_name_that_is_no_part_of_a_path_is_refused(package: Path, name: str) -> None:
    registry = contributing(package, {name: "meadow_for_tests.web"})

    with pytest.raises(BadRoutes, match="need a name of 1–64 lower-case letters, digits and hyphens"):
        contributed_routes(registry)
