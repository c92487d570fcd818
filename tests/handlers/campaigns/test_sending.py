"""A campaign from its launch to its end: who gets which message, and when."""

import json
from collections import Counter
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import campaign as actions
from handlers.campaigns import enrolment, planning
from handlers.campaigns import tables as t
from handlers.campaigns.campaign import launch
from handlers.mail.tables import templates
from handlers.suppressions import suppressions
from mayfly import cancel, database, enqueue
from mayfly.testing import drain, enqueued_jobs
from tests.handlers.campaigns.days import DAY, HOUR, pass_days, pass_time
from tests.handlers.campaigns.servers import Fault, MessageServers
from tests.handlers.campaigns.world import CREATED, StepSpec, World

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)


def local_times(servers: MessageServers, zone: str) -> list[datetime]:
    return [each.at.astimezone(ZoneInfo(zone)) for each in servers.received]


@pytest.mark.every_database
def test_each_contact_gets_each_step_once_and_in_order(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """By email, SMS and voice; a follow-up waits until the step before it has ended. On every database."""
    world.sender("ann")
    world.sender("sms", "twilio")
    world.contacts(7)
    world.campaign(StepSpec("email"), StepSpec("sms"), StepSpec("sms", wait_days=1), StepSpec("voicemail", day=4))
    launch(database(), "spring")

    pass_days(clock, 8)

    assert (world.status_of(), world.statuses()) == ("COMPLETED", {"SENT": 28})
    for number in range(1, 8):
        by_mail, by_phone = servers.by_recipient[f"{number}@example.com"], servers.by_recipient[f"+4930{number}"]
        assert [each.channel for each in [*by_mail, *by_phone]] == ["email", "sms", "sms", "voicemail"]
        times = [each.at for each in [*by_mail, *by_phone]]
        assert times == sorted(times)
        assert times[2] - times[1] >= DAY
        assert times[3] - times[2] >= 3 * DAY


@pytest.mark.every_database
def test_a_person_is_enrolled_once_and_only_if_allowed(world: World, clock: FrozenDateTimeFactory) -> None:
    """Twice in the lead groups, banned in four ways, replied, unsubscribed. On every database."""
    world.sender()
    world.contacts(1)
    world.contacts(1, group=2, email="1@example.com", phone=None)  # the same address
    world.contacts(1, group=2, email="other@example.com", phone="+49 30-1")  # the same number
    world.contacts(1, banned=1)
    world.contacts(1, email="eve@rival.example")
    world.contacts(1, company="Rival Inc")
    world.contacts(1, email="mallory@example.com")
    world.contacts(1, replied_at=CREATED)
    world.contacts(1, email="gone@example.com")
    world.contacts(1, group=3)  # not in the campaign
    bans = [("domain", "rival.example"), ("company", "rival inc"), ("address", "mallory@example.com")]
    world.insert(t.bans, *({"kind": kind, "value": value, "created_at": CREATED} for kind, value in bans))
    world.insert(suppressions, {"address": "gone@example.com", "reason": "unsubscribed", "created_at": CREATED})
    world.campaign(groups=(1, 2))
    launch(database(), "spring")

    pass_time(clock, HOUR)

    assert [row.contact_id for row in world.rows(t.enrolments)] == [1]
    [start] = enqueued_jobs("send_campaign")
    assert start.result == {"read": 9, "banned": 4, "replied": 1, "suppressed": 1}


@SQLITE
def test_messages_arrive_in_the_business_hours_of_the_contact(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Of the campaign's zone, if the contact has none; not on a holiday."""
    world.sender()
    world.contacts(1, zone="America/Los_Angeles")
    world.contacts(1, zone="Asia/Tokyo")
    world.contacts(1)
    world.campaign(holidays=["2026-05-05"])
    launch(database(), "spring")

    pass_days(clock, 4)

    at = {each.to: each.at for each in servers.received}
    tokyo = at["2@example.com"].astimezone(ZoneInfo("Asia/Tokyo"))
    pacific = at["1@example.com"].astimezone(ZoneInfo("America/Los_Angeles"))
    berlin = at["3@example.com"].astimezone(ZoneInfo("Europe/Berlin"))
    assert (tokyo.date().isoformat(), 9 <= tokyo.hour < 17) == ("2026-05-06", True)  # at the launch it is 17:05 there
    assert (pacific.date().isoformat(), 9 <= pacific.hour < 17) == ("2026-05-04", True)
    assert (berlin.date().isoformat(), 9 <= berlin.hour < 17) == ("2026-05-04", True)


@SQLITE
def test_a_slot_has_at_most_n_messages_per_sender(world: World, clock: FrozenDateTimeFactory) -> None:
    """Also if two campaigns share the senders; the instants within a slot differ."""
    for name in ("ann", "bob"):
        world.sender(name)
    world.contacts(30)
    world.contacts(10, group=2)
    world.campaign(per_slot=3)
    world.campaign(per_slot=3, name="summer", groups=(2,))
    launch(database(), "spring")
    launch(database(), "summer")

    pass_time(clock, timedelta(minutes=6))

    planned = world.rows(t.executions)
    by_slot = Counter((row.sender_id, row.slot_at) for row in planned)
    assert (len(planned), max(by_slot.values())) == (40, 3)
    assert len({row.scheduled_at for row in planned}) == 40
    assert all(row.slot_at <= row.scheduled_at < row.slot_at + timedelta(minutes=15) for row in planned)


@SQLITE
def test_a_launch_can_be_cancelled_until_it_starts(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Nothing was read, planned or sent."""
    world.sender()
    world.contacts(3)
    world.campaign()
    launch_at = launch(database(), "spring")
    clock.tick(timedelta(minutes=4))
    actions.cancel(database(), "spring")

    pass_days(clock, 2)

    assert launch_at.isoformat() == "2026-05-04T08:05:00+00:00"
    assert (world.status_of(), world.rows(t.enrolments), servers.received) == ("CANCELLED", [], [])


@SQLITE
def test_an_exhausted_quota_waits_for_the_next_day_of_the_sender(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """No attempt is used, and the job has the reason until then."""
    world.sender(limit=5)
    world.contacts(4)
    world.campaign()
    launch(database(), "spring")
    pass_time(clock, timedelta(minutes=6))
    today = {"sender_id": 1, "local_date": "2026-05-04", "day_limit": 5, "sends": 3}
    world.insert(t.sender_days, today)  # of another campaign

    first = pass_time(clock, 8 * HOUR)
    waiting = [job for job in enqueued_jobs("send_step_email") if job.status == "pending"]
    second = pass_time(clock, DAY)

    assert (first.outcomes, second.outcomes) == ({"done": 2, "snoozed": 2}, {"done": 2})
    assert {job.attempts for job in waiting} == {0}
    assert {run.outcome.waiting_for for run in first.runs if run.kind == "snoozed"} == {
        "the quota of all senders is used up"
    }
    assert [each.date().isoformat() for each in local_times(servers, "Europe/Berlin")] == [
        "2026-05-04", "2026-05-04", "2026-05-05", "2026-05-05",
    ]  # fmt: skip
    assert [(row.local_date, row.sends) for row in world.rows(t.sender_days)] == [
        ("2026-05-04", 5),
        ("2026-05-05", 2),
    ]


@SQLITE
@pytest.mark.parametrize("fields", [{}, {"city": ""}, {"city": None}])
def test_an_unfilled_field_sends_nothing(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory, fields: dict[str, str | None]
) -> None:
    """The execution has failed and says which field; no quota is used."""
    world.sender()
    world.template("city", text="How is {{ city }}?")
    world.contacts(1, fields=fields)
    world.contacts(1, fields={"city": "Rome"})
    world.campaign(StepSpec(template="city"))
    launch(database(), "spring")

    pass_time(clock, HOUR)

    assert [each.to for each in servers.received] == ["2@example.com"]
    assert (world.execution(1).status, "'city' is undefined" in world.execution(1).reason) == ("FAILED", True)
    assert [row.sends for row in world.rows(t.sender_days)] == [1]


@SQLITE
def test_a_later_step_uses_the_new_text_and_a_planned_message_keeps_its_own(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """A campaign is edited while it is active."""
    world.sender()
    world.contacts(1)
    world.campaign(StepSpec(), StepSpec(day=2))
    launch(database(), "spring")
    pass_time(clock, timedelta(minutes=6))  # planned, not sent
    world.change(templates, templates.c.template_key == "hello", subject="Good day {{ name }}")

    pass_days(clock, 4)

    assert servers.to("1@example.com") == ["Hello Number 1", "Good day Number 1"]


@SQLITE
def test_secrets_are_in_no_payload_and_no_row(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """The tables have the names of settings; the access token has a row of its own."""
    world.sender("gmail", "gmail")
    world.sender("sms", "twilio")
    world.contacts(1)
    world.campaign(StepSpec(), StepSpec("sms", day=1))
    servers.fault = lambda _path: Fault(500)
    launch(database(), "spring")

    pass_days(clock, 3)

    tables = [t.campaigns, t.executions, t.sender_accounts, t.enrolments]
    stored = json.dumps([[str(each) for each in world.rows(table)] for table in tables])
    jobs = json.dumps([[each.payload, each.last_error, each.result] for each in enqueued_jobs()])
    assert "returned 500" in jobs
    for secret in ("app-s3cret", "refresh-1", "AC1:token", "access-1"):
        assert secret not in stored + jobs


@SQLITE
def test_fifty_contacts_are_planned_in_slices(
    world: World, clock: FrozenDateTimeFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice ends at a checkpoint, and the next one continues: no contact is missed or planned twice."""
    monkeypatch.setattr(enrolment, "PAGE_SIZE", 7)
    monkeypatch.setattr(planning, "PAGE_SIZE", 7)
    world.sender()
    world.contacts(50)
    world.campaign()
    launch(database(), "spring")
    clock.tick(timedelta(minutes=5))

    drained = drain(slice_after=2, lanes=["send_campaign", "send_campaign_step"])

    messages = enqueued_jobs("send_step_email")
    assert drained.outcomes["sliced"] >= 6
    assert sorted(job.payload["contact"] for job in messages) == list(range(1, 51))
    assert world.statuses() == {"QUEUED": 50}


@SQLITE
def test_contacts_without_an_address_are_skipped(world: World, clock: FrozenDateTimeFactory) -> None:
    """For the channel of the step, with the reason; so are those in a zone that does not exist."""
    world.sender()
    world.sender("sms", "twilio")
    world.contacts(1, phone=None)
    world.contacts(1, email=None)
    world.contacts(1, zone="Mars/Olympus")
    world.campaign(StepSpec(), StepSpec("sms", day=1))
    launch(database(), "spring")

    pass_days(clock, 3)

    ended = {(row.contact_id, row.step_id): (row.status, row.reason) for row in world.rows(t.executions)}
    assert ended == {
        (1, 1): ("SENT", None),
        (1, 2): ("SKIPPED", "the contact has no phone number"),
        (2, 1): ("SKIPPED", "the contact has no valid email address"),
        (2, 2): ("SENT", None),
        (3, 1): ("SKIPPED", "the contact has the unknown zone 'Mars/Olympus'"),
        (3, 2): ("SKIPPED", "the contact has the unknown zone 'Mars/Olympus'"),
    }


@SQLITE
def test_a_planning_job_that_is_missing_is_enqueued_again(world: World, clock: FrozenDateTimeFactory) -> None:
    """Cancelled by hand, or dead: process_followups finds that the step is not planned."""
    world.sender()
    world.contacts(2)
    world.campaign()
    launch(database(), "spring")
    cancel(type="send_campaign")
    enqueue("process_followups")
    drain(lanes=["send_campaign"], advance=timedelta(minutes=6))
    cancel(type="send_campaign_step")

    pass_days(clock, 2)

    assert world.statuses() == {"SENT": 2}
