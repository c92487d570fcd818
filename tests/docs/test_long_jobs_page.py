"""docs/long-jobs.md says what is true: its example is somebody's project, its line is that of the log."""

import re
from datetime import timedelta

import pytest

from mayfly import log_messages
from mayfly.job import CHECKPOINT_LIMIT, SLICES_ALLOWED
from mayfly.log import render_text
from mayfly.stats.durations import LONG_SECONDS, MIN_RUNS, USUAL, fits
from mayfly.stats.totals import RECENT
from runner.deferral import MAX_DEFERRED
from tests.docs.consoles import page_named
from tests.docs.projects import files_of, run_project
from tests.factories import NOON

pytest_plugins = ["pytester"]

PAGE = page_named("long-jobs.md")


def test_the_example_passes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's two files are somebody's project."""
    run_project(pytester, monkeypatch, files_of(PAGE))


def test_the_minute_is_as_the_code_decides_it() -> None:
    """Each `render` of the table is started or deferred by what is left of its window."""
    rows = re.findall(r"^\| \d+ \| `render` \d \| (\d+) s \| (started|deferred)", PAGE, flags=re.MULTILINE)

    assert [kind for _left, kind in rows] == ["started", "started", "deferred", "started"]
    for left, kind in rows:
        assert fits(20, float(left), 50, is_whole=True) is (kind == "started")


def test_the_figures_and_the_lines_are_the_codes() -> None:
    """As an operator greps for them."""
    for event in (
        log_messages.job_sliced(12, "import_customers", 3, 48.6),
        log_messages.job_deferred(15, "render", 20.0, 13.21),
    ):
        assert f"```\n{render_text(event, '', NOON).partition('[] ')[2]}\n```" in PAGE
    assert (f"fewer than {MIN_RUNS} runs" in PAGE, f"deferred {MAX_DEFERRED} jobs" in PAGE) == (True, True)
    assert (f"{round(100 * USUAL)} of 100 runs" in PAGE, timedelta(days=1) == RECENT, round(LONG_SECONDS)) == (
        True,
        True,
        1,
    )
    assert f"up to {CHECKPOINT_LIMIT >> 10} KiB" in PAGE
    assert f"{SLICES_ALLOWED} slices in a row" in PAGE
