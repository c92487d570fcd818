"""docs/how-to/long-jobs.md is correct: the tests of its example pass, its line is that of the log."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mayfly import Job, handler, log_messages, registry
from mayfly.job import CHECKPOINT_LIMIT, SLICES_ALLOWED
from mayfly.queue.policy import INTERRUPTIONS_ALLOWED
from mayfly.settings import load
from tests.docs.consoles import blocks, page_named
from tests.docs.projects import files_of, run_project
from tests.factories import make_job

pytest_plugins = ["pytester"]

PAGE = page_named("how-to/long-jobs.md")


def test_the_example_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two files of the page are a project."""
    run_project(pytester, monkeypatch, files_of(PAGE))


def test_the_long_lane_of_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its settings make the lane of its handler a long one."""
    imported: list[str] = []
    monkeypatch.setattr(registry, "_declared", {})
    (tmp_path / ".env").write_text(blocks(PAGE, "sh")[0])
    names: dict[str, Any] = {
        "handler": handler,
        "Job": Job,
        "vendor_sdk": SimpleNamespace(import_everything=imported.append),
    }

    exec(blocks(PAGE, "python")[2], names)
    names["import_catalogue"](make_job(payload_text='{"file": "roses.csv"}'))

    settings = load({"MAYFLY_HOME": str(tmp_path)}).settings
    lane = settings.lane(str(registry.declared()["import_catalogue"].lane))
    assert (imported, lane.worker_timeout, lane.max_workers) == (["roses.csv"], 3 * 3600, 2)


def test_figures_and_the_line_equal_the_code() -> None:
    """Operators grep for the line."""
    assert f"`{log_messages.guard_interrupted(15, 'render', 20.0).text}`" in PAGE
    assert f"up to {CHECKPOINT_LIMIT >> 10} KiB" in PAGE
    assert f"{SLICES_ALLOWED} slices in a row" in " ".join(PAGE.split())
    assert (INTERRUPTIONS_ALLOWED, "The fourth interruption is a failure" in PAGE) == (3, True)
