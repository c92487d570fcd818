"""docs/how-to/operate.md is correct: its example runs unchanged, its words are those of `mayfly why`."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import mayfly
from mayfly.admin import why
from tests.docs.consoles import blocks, run_consoles, section_named
from tests.process.installation import Installation

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = section_named("how-to/operate.md", "Pause, cancel, explain")


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Installation]:
    """An installation with the page's handler, and three jobs of the campaign."""
    (tmp_path / "campaign.py").write_text(blocks(PAGE, "python")[0])
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", {"HANDLERS": "tests.basic_handlers,campaign"})
    made.dispatch()  # cron is running
    made.enqueue("send_campaign", '{"recipients": ["ann"]}', count=3, lane="campaigns", group_key="campaign-7")
    yield made
    made.end()


def test_the_example_works(campaign: Installation) -> None:
    """Each command, in order, prints what the page shows; … is any text."""
    assert run_consoles(campaign, PAGE) == 6


def test_a_campaign_that_is_not_cancelled_is_sent(campaign: Installation) -> None:
    """The handler of the example works."""
    cycle = campaign.dispatch()

    assert (cycle.returncode, campaign.statuses()) == (0, {"done": 3})


def test_every_reason_of_why_is_in_the_table() -> None:
    """And no other."""
    source = Path(why.__file__).read_text("utf-8")
    named = {*re.findall(r'Reason\("(\w+)"', source), "claimed", "running", "done", "dead", "cancelled"}
    table = PAGE.split("## Why is it not running?")[1]
    cells = re.findall(r"^\| (`.+?) \|", table, re.MULTILINE)
    listed = {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}

    assert listed == named


def test_the_python_cancels_jobs(campaign: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the page, in order; the first one names its result."""
    monkeypatch.setattr("mayfly.client._apps", {})
    for name, value in campaign.environment().items():
        monkeypatch.setenv(name, value)
    campaign.enqueue("noop", count=12 - 3)
    campaign.enqueue("send_email", lane="mail", run_at=LONG_AGO, created_at=LONG_AGO)
    first, *others = blocks(PAGE, "python")[1].splitlines()
    call, comment = first.split("  # ")

    assert repr(eval(call, {"mayfly": mayfly})) == comment
    assert [eval(each, {"mayfly": mayfly}).ended for each in others] == [3, 1]
    assert campaign.statuses() == {"cancelled": 5, "pending": 8}
