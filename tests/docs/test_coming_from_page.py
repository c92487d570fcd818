"""docs/how-to/coming-from.md is correct: the test of its example passes, what it names exists."""

import re
import textwrap

import pytest

import mayfly
from tests.docs.consoles import page_named
from tests.docs.projects import files_of, run_project

pytest_plugins = ["pytester"]

PAGE = page_named("how-to/coming-from.md")


def test_the_example_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files of the page are a project; they are indented as parts of a list."""
    blocks = re.findall(r"^ *```python\n.+?^ *```$", PAGE, re.MULTILINE | re.DOTALL)

    run_project(pytester, monkeypatch, files_of("".join(f"{textwrap.dedent(each)}\n" for each in blocks)))


@pytest.mark.parametrize("name", ["enqueue", "batch", "chain", "rate", "concurrency", "Retry"])
def test_the_named_functions_exist(name: str) -> None:
    """And are on the page."""
    assert re.search(rf"\b{name}\b", PAGE)
    assert callable(getattr(mayfly, name))
