"""Events during a campaign: pauses, replies, bounces, revoked senders, jobs that end without their handler."""

from datetime import timedelta

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.campaign import cancel, launch, pause, resume
from handlers.campaigns.payloads import StepMessage
from handlers.maintenance.tables import metric_points
from handlers.suppressions import suppressions
from mayfly import cancel as cancel_jobs
from mayfly import database, enqueue
from mayfly.testing import drain, enqueued_jobs, run_inline
from tests.handlers.campaigns.days import DAY, HOUR, pass_days, pass_time
from tests.handlers.campaigns.servers import MessageServers
from tests.handlers.campaigns.world import StepSpec, World

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
MINUTE = timedelta(minutes=1)


def event(address: str, name: str) -> None:
    enqueue("record_contact_event", {"address": address, "event": name})


@pytest.fixture
def launched(world: World, clock: FrozenDateTimeFactory) -> World:
    """Eight messages are planned for the next hour, two per quarter of an hour."""
    world.sender()
    world.contacts(8)
    world.campaign(StepSpec(), StepSpec(day=3), per_slot=2)
    launch(database(), "spring")
    pass_time(clock, 6 * MINUTE)
    return world


@pytest.mark.every_database
def test_a_pause_cancels_what_is_pending_and_a_resume_plans_it_again(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Each contact gets each step once. On every database."""
    pass_time(clock, 20 * MINUTE)
    sent_before = len(servers.received)
    pause(database(), "spring")
    pass_time(clock, MINUTE)
    paused = launched.statuses(), {job.status for job in enqueued_jobs("send_step_email")}
    pass_time(clock, 2 * HOUR)
    sent_while_paused = len(servers.received) - sent_before

    resume(database(), "spring")
    pass_days(clock, 5)

    assert 0 < sent_before < 8
    assert paused == ({"SENT": sent_before, "CANCELLED": 8 - sent_before}, {"done", "cancelled"})
    assert sent_while_paused == 0
    assert (launched.status_of(), launched.statuses()) == ("COMPLETED", {"SENT": 16})
    assert {len(each) for each in servers.by_recipient.values()} == {2}


@SQLITE
def test_a_claimed_job_checks_the_campaign_before_it_sends(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Although nothing has cancelled it yet."""
    pause(database(), "spring")

    drained = drain(lanes=["email"], advance=2 * HOUR)

    assert (drained.outcomes, servers.received) == ({"done": 8}, [])
    assert launched.statuses() == {"CANCELLED": 8}
    assert launched.execution(1).reason == "the campaign is PAUSED"


@SQLITE
def test_a_pause_before_the_start_delays_the_start(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """The contacts are enrolled after the resume."""
    world.sender()
    world.contacts(2)
    world.campaign()
    launch(database(), "spring")
    pause(database(), "spring")
    pass_time(clock, DAY / 8)
    enrolled_before = world.rows(t.enrolments)
    resume(database(), "spring")

    pass_days(clock, 2)

    assert (enrolled_before, world.statuses()) == ([], {"SENT": 2})


@SQLITE
def test_a_resume_right_after_a_pause_loses_and_repeats_nothing(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Before the pending jobs are cancelled: those of the earlier run do nothing."""
    pause(database(), "spring")
    resume(database(), "spring")

    pass_days(clock, 5)

    assert launched.statuses() == {"SENT": 16}
    assert {len(each) for each in servers.by_recipient.values()} == {2}


@SQLITE
def test_a_job_of_an_earlier_run_sends_nothing(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """It is due, but its message is planned again for later."""
    clock.tick(30 * MINUTE)
    pause(database(), "spring")
    resume(database(), "spring")
    drain(lanes=["send_campaign_step"])

    drained = drain(lanes=["email"])

    assert (drained.outcomes["done"] > 0, servers.received) == (True, [])
    assert launched.statuses() == {"QUEUED": 8}


@SQLITE
def test_a_cancelled_campaign_sends_nothing_more(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    cancel(database(), "spring")

    pass_days(clock, 5)

    assert (launched.status_of(), launched.statuses(), servers.received) == ("CANCELLED", {"CANCELLED": 8}, [])


@pytest.mark.every_database
def test_later_messages_to_a_stopped_contact_are_skipped_with_the_reason(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """A reply, a bounce reported later, an unsubscribed or banned address. On every database."""
    for number, name in ((1, "replied"), (2, "bounced"), (3, "unsubscribed"), (4, "complained")):
        event(f"{number}@EXAMPLE.com", name)
        event(f"{number}@example.com", name)  # twice: it counts once
    event("+49 30 5", "replied")
    launched.change(t.contacts, t.contacts.c.id == 6, banned=1)
    pass_time(clock, 4 * MINUTE)

    pass_days(clock, 4)

    reasons = {number: launched.execution(number).reason for number in range(1, 8)}
    stopped = {f"{number}@example.com" for number in range(1, 7)}
    assert reasons == {
        1: "replied", 2: "bounced", 3: "unsubscribed", 4: "complained", 5: "replied", 6: "banned", 7: None
    }  # fmt: skip
    assert not stopped & servers.by_recipient.keys()
    assert launched.statuses()["SENT"] == 4
    assert {row.address: row.reason for row in launched.rows(suppressions)} == {
        "2@example.com": "bounced", "3@example.com": "unsubscribed", "4@example.com": "complained"
    }  # fmt: skip


@SQLITE
def test_a_bounce_stops_the_contact_and_counts_for_the_sender(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """The server refuses the mailbox: the step has failed, and later ones are not planned."""
    servers.smtp_reply = lambda address: "550 5.1.1 no such user" if address == "1@example.com" else None

    pass_time(clock, 2 * HOUR)

    [sender] = launched.rows(t.sender_accounts)
    assert (launched.execution(1).status, launched.execution(1).reason) == ("FAILED", "ann: 550 5.1.1 no such user")
    assert [row.reason for row in launched.rows(suppressions)] == ["bounced"]
    assert (sender.bounces, launched.statuses()["SENT"]) == (1, 7)
    pass_days(clock, 4)
    assert len(launched.rows(t.executions, t.executions.c.contact_id == 1)) == 1


@pytest.mark.every_database
def test_a_complaint_about_a_sent_message_counts_for_its_sender(
    launched: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """reset_warmup lowers the limit of that account and forgets the complaint. On every database."""
    launched.change(t.sender_accounts, curve=[10, 20, 30], warmup_day=2, current_limit=30, daily_limit=100)
    pass_time(clock, 2 * HOUR)
    event("1@example.com", "complained")
    pass_time(clock, MINUTE)
    counted = launched.rows(t.sender_accounts)[0].complaints

    enqueue("reset_warmup")
    enqueue("reset_warmup")  # of the same day: changes nothing
    drain()

    [sender] = launched.rows(t.sender_accounts)
    assert (counted, sender.complaints, sender.current_limit, sender.health) == (1, 0, 20, 80)


@pytest.mark.every_database
def test_jobs_that_end_without_their_handler_end_their_executions(
    launched: World, clock: FrozenDateTimeFactory
) -> None:
    """Dead after crashes: failed. Cancelled by hand: skipped. The campaign can end. On every database."""
    jobs = enqueued_jobs("send_step_email")
    by_contact = {job.payload["contact"]: job.id for job in jobs}
    cancel_jobs(by_contact[1])
    killed = "UPDATE mayfly_jobs SET status = 'dead', last_error = 'killed by SIGKILL' WHERE id = :id"
    launched.database.run(lambda connection: connection.execute(killed, {"id": by_contact[2]}))

    pass_days(clock, 5)

    assert (launched.execution(1).status, launched.execution(1).reason) == ("SKIPPED", "its job was cancelled")
    assert (launched.execution(2).status, launched.execution(2).reason) == ("FAILED", "killed by SIGKILL")
    assert (launched.status_of(), launched.statuses()) == ("COMPLETED", {"SENT": 14, "SKIPPED": 1, "FAILED": 1})


@pytest.mark.every_database
def test_the_figures_of_a_campaign_are_metrics(launched: World, clock: FrozenDateTimeFactory) -> None:
    """One point per figure and run of close_campaigns; stored with the campaign at its end. On every database."""
    event("1@example.com", "replied")
    pass_time(clock, 2 * HOUR)
    enqueue("close_campaigns")
    drain()

    points = {row.name: row.value for row in launched.rows(metric_points)}
    pass_days(clock, 5)

    [campaign] = launched.rows(t.campaigns)
    assert points["campaign.1.contacts"] == 8
    assert (points["campaign.1.sent"], points["campaign.1.skipped"], points["campaign.1.replied"]) == (7, 1, 1)
    assert campaign.figures == {"contacts": 8, "replied": 1, "SENT": 14, "SKIPPED": 1}
    assert campaign.ended_at is not None


@SQLITE
def test_a_message_of_a_deleted_contact_is_dead(launched: World, clock: FrozenDateTimeFactory) -> None:
    run = run_inline("send_step_email", StepMessage(campaign=1, step=1, contact=99).model_dump())

    assert (run.kind, str(run.reason)) == ("dead", "the execution or the contact of this message was deleted")
