"""docs/how-to/batches-and-chains.md is correct: its examples run unchanged."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mayfly import enqueue, log_messages, registry
from mayfly.cli.jobs import batches as command
from mayfly.log import render_text
from mayfly.testing import drain, enqueued_jobs, using_database
from mayfly.testing.database import prepare
from tests.docs.consoles import page_named
from tests.factories import NOON

PAGE = page_named("how-to/batches-and-chains.md")
BATCH, CHAIN = re.findall(r"^```python\n(.+?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def log_line(event: log_messages.LogMessage) -> str:
    return render_text(event, "WORKER", NOON).strip()


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declarations of the page's modules are removed after each test."""
    monkeypatch.setattr(registry, "_declared", dict(registry.declared()))
    monkeypatch.setattr("mayfly.client._apps", {})  # settings that an earlier test has loaded


def test_the_batch_example_runs_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three mails and two siblings of a list, one without an address; then the report and the table."""
    url = prepare(None, None, tmp_path)(tmp_path)
    monkeypatch.setenv("DATABASE_URL", url)
    with using_database(url):
        exec(BATCH, {"__name__": "shop.jobs"})
        enqueue("start_campaign", {"campaign": 7, "to": ["nobody", "list:@all"]})
        drained = drain(raises=False)
        [report] = enqueued_jobs("send_report")

    shown = CliRunner().invoke(command, [], standalone_mode=False).output
    assert report.result == "campaign-7: 3 sent, 1 failed. Report for ann@example.com."
    assert drained.outcomes == {"done": 5, "dead": 1}
    assert [line.split()[:6] for line in shown.splitlines()] == [
        ["batch", "state", "left", "done", "dead", "cancelled"], ["campaign-7", "complete", "0", "3", "1", "0"],
    ]  # fmt: skip
    assert shown.splitlines()[0].strip() in PAGE


def test_the_chain_example_runs_unchanged(tmp_path: Path) -> None:
    """Each step gets the result of the previous one."""
    with using_database(prepare(None, None, tmp_path)(tmp_path)):
        namespace = {"__name__": "shop.sums"}
        exec(CHAIN, namespace)
        namespace["start"]()  # type: ignore[operator]
        drain()

        assert [job.result for job in enqueued_jobs()] == [[3, 4, 5], 12, "The sum: 12"]


def test_the_line_is_that_of_the_log() -> None:
    """Word for word."""
    assert log_messages.chain_broken(1, "a", "dead", 2).text.partition(": ")[2] in PAGE
