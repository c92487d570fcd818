"""docs/how-to/test-handlers.md is correct: the tests of its example pass."""

import inspect
import re
from collections.abc import Callable

import pytest

import mayfly.testing
from mayfly.testing import assert_enqueued, drain, run_inline
from tests.docs.consoles import page_named
from tests.docs.projects import files_of, run_project

pytest_plugins = ["pytester"]

PAGE = page_named("how-to/test-handlers.md")


def test_the_example_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files of the page are a project, and create no database in it."""
    run_project(pytester, monkeypatch, files_of(PAGE))

    assert list(pytester.path.glob("*.db")) == []


def test_the_table_has_every_name() -> None:
    """Except the return values; and the fixture, which pytest provides."""
    [table] = re.findall(r"^\| \| \|\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE)
    named = set(re.findall(r"^\| `(\w+)", table, flags=re.MULTILINE))

    assert named == {name for name in mayfly.testing.__all__ if name[0].islower()} | {"mayfly_db"}


@pytest.mark.parametrize("function", [run_inline, drain, assert_enqueued])
def test_the_arguments_equal_the_code(function: Callable[..., object]) -> None:
    """In order, with the defaults that the page shows."""
    [shown] = re.findall(rf"^`{function.__name__}\((.+?)\)`", PAGE, flags=re.MULTILINE | re.DOTALL)
    parts = [each.partition("=") for each in re.split(r",\s+", shown) if each != "*"]
    parameters = inspect.signature(function).parameters

    assert [name for name, _, _ in parts] == list(parameters)
    for name, _, default in parts:
        if default not in ("", "…"):
            assert str(parameters[name].default) == default
