"""Actions in docs/how-to/operate.md: its calls cancel jobs, its handler works."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import mayfly
from tests.docs.consoles import blocks, section_named
from tests.process.installation import Installation

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = section_named("how-to/operate.md", "Actions")


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[Installation]:
    """An installation with the page's handler, and three jobs of the campaign."""
    (tmp_path / "campaign.py").write_text(blocks(PAGE, "python")[1])
    made = Installation(tmp_path, f"sqlite:///{tmp_path}/mayfly.db", {"HANDLERS": "tests.basic_handlers,campaign"})
    made.dispatch()  # cron is running
    made.enqueue("send_campaign", '{"recipients": ["ann"]}', count=3, lane="campaigns", group_key="campaign-7")
    yield made
    made.end()


def test_a_campaign_that_is_not_cancelled_is_sent(campaign: Installation) -> None:
    """The handler of the example works."""
    cycle = campaign.dispatch()

    assert (cycle.returncode, campaign.statuses()) == (0, {"done": 3})


def test_the_python_cancels_jobs(campaign: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call of the page, in order; the first one names its result."""
    monkeypatch.setattr("mayfly.client._apps", {})
    for name, value in campaign.environment().items():
        monkeypatch.setenv(name, value)
    campaign.enqueue("noop", count=12 - 3)
    campaign.enqueue("send_email", lane="mail", run_at=LONG_AGO, created_at=LONG_AGO)
    first, *others = blocks(PAGE, "python")[0].splitlines()
    call, comment = first.split("  # ")

    assert repr(eval(call, {"mayfly": mayfly})) == comment
    assert [eval(each, {"mayfly": mayfly}).ended for each in others] == [3, 1]
    assert campaign.statuses() == {"cancelled": 5, "pending": 8}
