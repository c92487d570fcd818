"""docs/long-jobs.md says what is true: its example is somebody's project, its line is that of the log."""

import re
from pathlib import Path

import pytest

from mayfly import events
from mayfly.logs import render_text
from mayfly.slicing import SLICES_ALLOWED
from mayfly.trail import CHECKPOINT_LIMIT
from tests.factories import NOON

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "long-jobs.md").read_text("utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+)\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL))


def test_the_example_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands: a project with two files, and a third that names the handlers."""
    monkeypatch.setenv("MAYFLY_HOME", str(pytester.path))
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    (pytester.path / "mayfly.toml").write_text('handlers = ["shop.imports"]\n')
    for name, text in FILES.items():
        path = pytester.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60)

    result.assert_outcomes(passed=FILES["tests/test_imports.py"].count("\ndef test_"))


def test_the_figures_and_the_line_are_the_codes() -> None:
    """As an operator greps for them."""
    said = render_text(events.job_sliced(12, "import_customers", 3, 48.6), "", NOON).partition("[] ")[2]

    assert f"```\n{said}\n```" in PAGE
    assert f"up to {CHECKPOINT_LIMIT >> 10} KiB" in PAGE
    assert f"{SLICES_ALLOWED} slices in a row" in PAGE
