"""`mayfly campaigns`: what operators see and do."""

import json
from datetime import datetime

import pytest
from click.testing import CliRunner, Result
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.cli import campaigns
from handlers.schema import metadata
from mayfly.testing import enqueued_jobs
from tests.handlers.campaigns.days import pass_days, pass_time
from tests.handlers.campaigns.test_events import MINUTE
from tests.handlers.campaigns.world import CREATED, StepSpec, World

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(campaigns, list(arguments))


@pytest.fixture
def spring(world: World) -> World:
    world.sender()
    world.sender("sms", "twilio")
    world.contacts(3)
    world.contacts(1, email="1@example.com")
    world.contacts(1, banned=1)
    world.campaign(StepSpec(), StepSpec("sms", wait_days=2))
    return world


@pytest.mark.every_database
def test_campaigns_are_listed_and_shown(spring: World, clock: FrozenDateTimeFactory) -> None:
    """As text and as JSON. On every database."""
    run("launch", "spring")
    launched = run("show", "spring")
    pass_days(clock, 1)
    started = run("show", "spring")
    pass_days(clock, 3)
    spring.change(t.sender_accounts, t.sender_accounts.c.id == 1, cooldown_until=CREATED, cooldown_reason="revoked")

    listed, shown = run("list"), run("show", "spring")
    facts = json.loads(run("show", "spring", "--json").output)

    assert listed.output.split() == ["spring", "COMPLETED", "3", "contacts,", "6", "SENT"]
    assert shown.output.startswith("spring  COMPLETED  started_at 2026-05-04 08:05 UTC\n")
    assert launched.output.startswith("spring  ACTIVE  launch_at 2026-05-04 08:05 UTC\n")
    assert "\nstep 2  sms        day 2  hello  due 2026-05-06 08:05 UTC\n" in started.output
    assert "\nstep 2  sms        day 2  hello  3 SENT\n" in shown.output
    assert "sender ann  limit 1000  health 100  cooldown until 2026-01-01 00:00 UTC: revoked\n" in shown.output
    assert [each["messages"] for each in facts["steps"]] == [{"SENT": 3}, {"SENT": 3}]
    assert json.loads(run("list", "--json").output)[0]["figures"] == {"contacts": 3, "SENT": 6}


@SQLITE
def test_a_preview_shows_what_a_launch_does_and_writes_nothing(spring: World, clock: FrozenDateTimeFactory) -> None:
    """The times of the first step are those of the messages."""
    before = {name: spring.rows(table) for name, table in metadata.tables.items()}
    previewed = json.loads(run("preview", "spring", "--json").output)
    text = run("preview", "spring", "--limit", "4").output
    after, jobs = {name: spring.rows(table) for name, table in metadata.tables.items()}, enqueued_jobs()

    run("launch", "spring")
    pass_time(clock, 6 * MINUTE)

    planned = {row.contact_id: row.scheduled_at for row in spring.rows(t.executions) if row.step_id == 1}
    first = {each["contact_id"]: each["at"] for each in previewed if each["step"] == 1}
    assert (before, jobs) == (after, [])
    assert {each["contact_id"]: each["reason"] for each in previewed if not each["step"]} == {
        4: "duplicate", 5: "banned"
    }  # fmt: skip
    assert {number: datetime.fromisoformat(at) for number, at in first.items()} == planned
    assert "\n5 Number 5  nothing: banned\n" in text
    assert "\nand 4 more\n6 messages to 3 contacts, the last one at 2026-05-06 " in text


@SQLITE
def test_a_preview_as_json_is_complete(world: World) -> None:
    """The text has the first rows."""
    world.sender()
    world.contacts(30)
    world.campaign()

    facts, text = json.loads(run("preview", "spring", "--json").output), run("preview", "spring").output

    assert len(facts) == 30
    assert "\nand 10 more\n30 messages to 30 contacts" in text


@SQLITE
def test_operators_launch_pause_resume_and_cancel(spring: World) -> None:
    """Each says what happens next."""
    assert run("launch", "spring").output == "Campaign spring starts at 2026-05-04 08:05:00 UTC.\n"
    assert run("pause", "spring").output == (
        "Campaign spring paused: pending messages are cancelled within one cycle.\n"
    )
    assert run("resume", "spring").output == "Campaign spring resumed: unsent messages are planned again.\n"
    assert CliRunner().invoke(campaigns, ["cancel", "spring"], input="n\n").exit_code == 1
    assert spring.status_of() == "ACTIVE"
    assert run("cancel", "spring", "--yes").output == "Campaign spring cancelled.\n"
    assert spring.status_of() == "CANCELLED"


@SQLITE
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["launch", "autumn"], "There is no campaign 'autumn'; `mayfly campaigns list` lists them."),
        (["pause", "spring"], "The campaign spring cannot be paused: it is DRAFT, not ACTIVE."),
        (["resume", "spring"], "The campaign spring cannot be resumed: it is DRAFT, not PAUSED."),
    ],
)
def test_a_refused_action_says_why(spring: World, arguments: list[str], sentence: str) -> None:
    assert str(run(*arguments).exception) == sentence


@SQLITE
def test_a_launch_that_cannot_work_is_refused_with_all_reasons(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is enqueued."""
    monkeypatch.delenv("UNSUBSCRIBE_SECRET")
    world.campaign(StepSpec(template="none"), StepSpec("sms"), groups=())
    world.campaign(name="empty")
    world.change(t.step_groups, t.step_groups.c.campaign_id == 2, campaign_id=9)

    refused, empty = str(run("launch", "spring").exception), str(run("launch", "empty").exception)

    assert refused == (
        "The campaign spring cannot be launched: it has no lead groups; add rows to app_campaign_lead_groups; "
        "there is no template 'none' in app_templates; no row of app_sender_accounts can send email; "
        "no row of app_sender_accounts can send sms; integration not configured: UNSUBSCRIBE_SECRET."
    )
    assert "it has no steps; add rows to app_campaign_step_groups and app_campaign_steps" in empty
    assert enqueued_jobs() == []


@SQLITE
@pytest.mark.parametrize("delay", ["soon", "-1", "9999999"])
def test_a_wrong_launch_delay_is_refused(spring: World, monkeypatch: pytest.MonkeyPatch, delay: str) -> None:
    monkeypatch.setenv("CAMPAIGN_LAUNCH_DELAY", delay)

    refused = run("launch", "spring")

    assert str(refused.exception) == f"CAMPAIGN_LAUNCH_DELAY={delay} must be a number of seconds, 0–2592000."


@SQLITE
def test_without_campaigns_the_list_says_so(world: World) -> None:
    assert run("list").output == "There are no campaigns.\n"
