"""docs/how-to/test-handlers.md is correct: the tests of its example pass."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator

import pytest
from freezegun import freeze_time

import mayfly.testing
from mayfly.testing import assert_enqueued, drain, run_inline, using_database
from tests.docs.consoles import page_named
from tests.docs.projects import files_of, run_project

pytest_plugins = ["pytester"]

PAGE = page_named("how-to/test-handlers.md").partition("\n## Run jobs in development\n")[0]
FILES = files_of(PAGE)


def test_the_example_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files of the page are a project, and create no database in it."""
    run_project(pytester, monkeypatch, FILES)

    assert list(pytester.path.glob("*.db")) == []


@pytest.fixture
def shop(migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The names of the example's module, on a database of this test."""
    monkeypatch.setattr("mayfly.registry._declared", {})
    names: dict[str, object] = {"__name__": "shop.jobs"}
    monkeypatch.setitem(sys.modules, "shop.jobs", type(sys)("shop.jobs"))
    exec(FILES["shop/jobs.py"], names)
    with using_database(migrated_url), freeze_time("2026-05-04 12:00"):
        yield names


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_the_failed_assertion_equals_the_code(shop: dict[str, object]) -> None:
    """Word for word, for the jobs of the example."""
    sign_up = shop["sign_up"]
    assert callable(sign_up)
    sign_up("Ann", "ann@example.com")

    with pytest.raises(AssertionError) as caught:
        assert_enqueued("send_note", {"to": "bob@example.com"})

    assert f"```\n{caught.value}\n```" in PAGE


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
