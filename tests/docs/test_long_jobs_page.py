"""docs/how-to/long-jobs.md is correct: the tests of its example pass, its line is that of the log."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mayfly import Job, handler, log_messages, registry
from mayfly.job import CHECKPOINT_LIMIT, SLICES_ALLOWED
from mayfly.log import render_text
from mayfly.queue.outcome import OutcomeKind
from mayfly.queue.policy import INTERRUPTIONS_ALLOWED, Backoff, Interruption, RetryContext, after_interruption
from mayfly.settings import load
from tests.docs.consoles import blocks, page_named
from tests.docs.projects import files_of, run_project
from tests.factories import NOON, make_job

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


def test_the_minute_of_the_table_equals_the_code() -> None:
    """Each `render` is done or interrupted by what is left of its window; none uses an attempt."""
    rows = re.findall(r"^\| \d+ \| `render` \d \| (\d+) s \| (done|interrupted)", PAGE, flags=re.MULTILINE)
    cut = after_interruption(make_job(), Interruption(20, 50), RetryContext(NOON, Backoff()))

    assert [kind for _left, kind in rows] == ["done", "interrupted", "done"]
    assert [float(left) >= 30 for left, _kind in rows] == [True, False, True]
    assert (cut.kind, cut.keeps_attempt, INTERRUPTIONS_ALLOWED) == (OutcomeKind.RELEASED, True, 3)


def test_figures_and_lines_equal_the_code() -> None:
    """Operators grep for them."""
    for event in (
        log_messages.job_sliced(12, "import_customers", 3, 48.6),
        log_messages.guard_interrupted(15, "render", 20.0),
    ):
        assert f"```\n{render_text(event, '', NOON).partition('[] ')[2]}\n```" in PAGE
    assert f"up to {CHECKPOINT_LIMIT >> 10} KiB" in PAGE
    assert f"{SLICES_ALLOWED} slices in a row" in " ".join(PAGE.split())
