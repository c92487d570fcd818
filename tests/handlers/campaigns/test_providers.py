"""Providers that fail, time out or answer too late; Gmail's tokens; the choice of the sender."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from threading import Event, Thread
from typing import cast
from zoneinfo import ZoneInfo

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.campaign import launch, load_campaign
from handlers.campaigns.gmail import access_token
from handlers.campaigns.payloads import StepMessage
from handlers.campaigns.senders import Reservation, load_senders, release, reserve
from handlers.campaigns.slots import slot_start
from handlers.idempotency import effects
from mayfly import Job, Snooze, database, setting
from mayfly.client import current_app
from mayfly.db.database import Database
from mayfly.testing import enqueued_jobs
from runner.guard import Guard
from runner.job_runtime import HandlerRuntime
from tests.handlers.campaigns.days import DAY, HOUR, pass_days, pass_time
from tests.handlers.campaigns.servers import Fault, MessageServers
from tests.handlers.campaigns.world import StepSpec, World

SQLITE = pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
MINUTE = timedelta(minutes=1)
DEADLINE = 60.0


def send_sms(world: World, contacts: int = 1) -> None:
    """One campaign, whose messages are due within a quarter of an hour."""
    world.sender("sms", "twilio")
    world.contacts(contacts)
    world.campaign(StepSpec("sms"))
    launch(database(), "spring")


def one_after_the_other(*faults: Fault) -> Iterator[Fault | None]:
    yield from faults
    while True:
        yield None


@SQLITE
@pytest.mark.parametrize(
    ("fault", "outcomes"),
    [
        (Fault(503), {"failed": 1, "done": 1}),
        (Fault(500, (("Retry-After", "7200"),)), {"failed": 1, "done": 1}),
        (Fault(429, (("Retry-After", "600"),)), {"snoozed": 1, "done": 1}),
        (Fault(429), {"failed": 1, "done": 1}),
    ],
)
def test_a_service_that_is_unavailable_is_called_again(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory, fault: Fault, outcomes: dict[str, int]
) -> None:
    """After the backoff, or after Retry-After; the message counts once."""
    faults = one_after_the_other(fault)
    servers.fault = lambda _path: next(faults)
    send_sms(world)
    pass_time(clock, 6 * MINUTE)

    drained = pass_time(clock, 5 * HOUR)

    [received] = servers.received
    waited = received.at - world.execution(1).scheduled_at
    retry_after = float(dict(fault.headers).get("Retry-After", 60))
    assert drained.outcomes == outcomes
    assert waited >= timedelta(seconds=retry_after)
    assert (world.statuses(), [row.sends for row in world.rows(t.sender_days)]) == ({"SENT": 1}, [1])


@SQLITE
def test_a_retry_that_is_due_in_the_evening_waits_for_the_next_morning(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """No attempt is used by the wait."""
    faults = one_after_the_other(Fault(503, (("Retry-After", "32400"),)))
    servers.fault = lambda _path: next(faults)
    send_sms(world)

    drained = pass_time(clock, DAY)

    [received] = servers.received
    wall = received.at.astimezone(ZoneInfo("Europe/Berlin"))
    assert (wall.day, wall.hour) == (5, 9)
    assert (drained.outcomes["failed"], drained.outcomes["snoozed"]) == (1, 1)


@pytest.mark.every_database
def test_a_run_that_was_killed_while_it_sent_is_not_repeated(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Handed over without an answer: held. Answered, but not recorded: sent. On every database."""
    send_sms(world, contacts=2)
    pass_time(clock, 6 * MINUTE)
    before = {"kind": "campaign", "job_id": 9, "claims": 1, "provider": "sms", "changed_at": database().now}
    for contact, state in ((1, "handed over"), (2, "done")):
        world.insert(effects, {**before, "effect_key": f"campaign:1:1:{contact}", "state": state, "answer": "SM7"})

    pass_time(clock, HOUR)

    assert servers.received == []
    assert (world.execution(1).status, world.execution(2).status) == ("FAILED", "SENT")
    assert "an earlier run ended before the answer" in world.execution(1).reason
    assert world.execution(2).answer == "SM7"


@pytest.mark.every_database
def test_the_last_message_of_a_quota_is_granted_once(
    world: World, clock: FrozenDateTimeFactory, platform_url: str
) -> None:
    """Two runners have read that one is left; a repeated reservation counts once. On every database."""
    world.sender("sms", "twilio", limit=1)
    world.campaign()
    keys = {"campaign_id": 1, "step_id": 1, "status": "QUEUED"}
    world.insert(t.executions, *({**keys, "contact_id": number} for number in (1, 2)))
    now = database().now
    sender, campaign = world.database.run_sqlalchemy(
        lambda connection: (load_senders(connection, "default", "sms", now)[0], load_campaign(connection, 1))
    )
    first, second = (StepMessage(campaign=1, step=1, contact=number) for number in (1, 2))
    job = runner_job(platform_url, 1)

    granted = [reserve(job, message, sender, campaign) for message in (first, first, second)]
    release(job, first)
    granted += [reserve(job, second, sender, campaign)]
    job.runtime.database.close()

    assert granted == [Reservation.GRANTED, Reservation.GRANTED, Reservation.DAY_FULL, Reservation.GRANTED]
    assert [(row.sends, row.day_limit) for row in world.rows(t.sender_days)] == [(1, 1)]


@pytest.mark.every_database
def test_no_sender_sends_more_than_n_messages_per_slot(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """A retry that comes due in a slot that is used waits for a free one; no attempt is used. On every database."""
    faults = one_after_the_other(Fault(503, (("Retry-After", "900"),)))
    servers.fault = lambda _path: next(faults)
    world.sender("sms", "twilio")
    world.contacts(3)
    world.campaign(StepSpec("sms"), per_slot=1)
    launch(database(), "spring")

    drained = pass_time(clock, 3 * HOUR)

    assert per_sender_and_slot(servers) == 3 * [1]
    assert [run.outcome.waiting_for for run in drained.runs if run.kind == "snoozed"] == [
        "all senders have sent what fits into this slot"
    ]
    assert {job.attempts for job in enqueued_jobs("send_step_sms")} == {1, 2}


@SQLITE
def test_messages_of_a_revoked_account_do_not_exceed_the_slots_of_others(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    world.sender("gmail-1", "gmail")
    world.sender("gmail-2", "gmail")
    world.contacts(6)
    world.campaign(per_slot=1)
    servers.revoked.add("refresh-1")
    launch(database(), "spring")

    pass_time(clock, 3 * HOUR)

    assert per_sender_and_slot(servers) == 6 * [1]


def per_sender_and_slot(servers: MessageServers) -> list[int]:
    return list(Counter((each.sender, slot_start(each.at, 15 * MINUTE)) for each in servers.received).values())


@SQLITE
def test_a_client_error_is_final_with_its_reason(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """The job is dead, the execution has failed, and no quota is used."""
    servers.fault = lambda _path: Fault(400)
    send_sms(world)

    pass_time(clock, HOUR)

    [job] = enqueued_jobs("send_step_sms")
    execution = world.execution(1)
    assert (job.status, job.attempts) == ("dead", 1)
    assert (execution.status, execution.reason) == ("FAILED", 'sms: 127.0.0.1 returned 400: {"error": "fault"}')
    assert [row.sends for row in world.rows(t.sender_days)] == [0]


@SQLITE
def test_used_up_attempts_are_visible_and_counted(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """The job is dead, the execution says why, the campaign ends with one failed message."""
    servers.fault = lambda _path: Fault(500)
    send_sms(world)

    pass_days(clock, 4)

    [job] = enqueued_jobs("send_step_sms")
    assert (job.status, job.attempts) == ("dead", 12)
    assert str(world.execution(1).reason).startswith("all 12 attempts failed: 127.0.0.1 returned 500")
    assert (world.status_of(), world.rows(t.campaigns)[0].figures) == ("COMPLETED", {"contacts": 1, "FAILED": 1})


@SQLITE
@pytest.mark.parametrize(
    ("on_doubt", "status", "messages"), [("hold", "FAILED", 1), ("resend", "SENT", 2)]
)  # fmt: skip
def test_an_unknown_answer_is_held_unless_the_lane_allows_to_repeat_it(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory, on_doubt: str, status: str, messages: int
) -> None:
    """The server took the message and closed the connection. Both tries count."""
    faults = one_after_the_other(Fault(0, accepts=True))
    servers.fault = lambda _path: next(faults)
    app = current_app()
    app.settings = app.settings.replace(lanes={"sms": app.settings.unset_lane.replace(on_doubt=on_doubt)})
    send_sms(world)

    pass_time(clock, 3 * HOUR)

    execution = world.execution(1)
    assert (execution.status, len(servers.received)) == (status, messages)
    assert ("outcome unknown" in (execution.reason or "")) == (on_doubt == "hold")
    assert [row.sends for row in world.rows(t.sender_days)] == [messages]


@pytest.mark.every_database
def test_a_revoked_account_has_a_cooldown_and_others_send_its_messages(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """It is reported once, as a dead job. On every database."""
    world.sender("gmail-1", "gmail")
    world.sender("gmail-2", "gmail")
    world.contacts(6)
    world.campaign()
    servers.revoked.add("refresh-1")
    launch(database(), "spring")

    pass_time(clock, 2 * HOUR)

    revoked = world.rows(t.sender_accounts)[0]
    [report] = enqueued_jobs("report_sender")
    assert {each.sender for each in servers.received} == {"gmail-2@shop.example"}
    assert world.statuses() == {"SENT": 6}
    assert revoked.cooldown_until - servers.received[0].at > DAY / 2
    assert report.status == "dead"
    assert report.last_error == (
        "the sender account gmail-1 has a cooldown: 127.0.0.1 refused the refresh token (400): renew SENDER_GMAIL_1"
    )


@SQLITE
def test_a_rate_limit_of_gmail_is_no_revoked_account(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Its status is 403, too; the account has no cooldown, and the message is sent later."""
    limited = Fault(403, error={"errors": [{"reason": "userRateLimitExceeded"}]})
    faults = one_after_the_other(limited)
    servers.fault = lambda _path: next(faults)
    world.sender("gmail", "gmail")
    world.contacts(1)
    world.campaign()
    launch(database(), "spring")

    drained = pass_time(clock, HOUR)

    assert drained.outcomes["failed"] == 1
    assert (world.statuses(), world.rows(t.sender_accounts)[0].cooldown_until) == ({"SENT": 1}, None)


@SQLITE
def test_a_token_is_refreshed_once_and_used_until_it_expires(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory
) -> None:
    """Then once more. A token that Gmail refuses is refreshed too."""
    world.sender("gmail", "gmail")
    world.contacts(14)
    world.campaign(per_slot=1)
    launch(database(), "spring")

    pass_time(clock, timedelta(minutes=50))
    refreshed_at_first = len(servers.token_requests)
    pass_time(clock, 2 * HOUR)
    refreshed_later = len(servers.token_requests)
    servers.tokens.clear()
    pass_time(clock, 2 * HOUR)

    assert (refreshed_at_first, refreshed_later, len(servers.token_requests)) == (1, 3, 4)
    assert servers.token_requests[0] == {
        "grant_type": "refresh_token", "client_id": "app", "client_secret": "app-s3cret", "refresh_token": "refresh-1"
    }  # fmt: skip
    assert world.statuses() == {"SENT": 14}


@pytest.mark.every_database
@pytest.mark.parametrize("expires_in", [60, -60])
def test_one_runner_refreshes_a_token_while_others_use_the_old_one_or_wait(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory, platform_url: str, expires_in: int
) -> None:
    """No transaction is open while the token server answers. On every database."""
    world.sender("gmail", "gmail")
    now = database().now
    old = {"access_token": "old", "expires_at": now + timedelta(seconds=expires_in)}
    world.insert(t.gmail_tokens, {"sender_id": 1, **old})
    is_asked, may_answer = Event(), Event()
    servers.before_token = lambda: (is_asked.set(), may_answer.wait(DEADLINE))[0]  # type: ignore[func-returns-value]
    [sender] = world.database.run_sqlalchemy(lambda connection: load_senders(connection, "default", "email", now))
    first, second = runner_job(platform_url, 1), runner_job(platform_url, 2)
    found: list[str] = []

    refresh = Thread(target=lambda: found.append(access_token(first, sender, setting(sender.credential))))
    refresh.start()
    assert is_asked.wait(DEADLINE)
    try:
        used = access_token(second, sender, setting(sender.credential))
    except Snooze as snooze:
        used = str(snooze.reason)
    may_answer.set()
    refresh.join(DEADLINE)
    for job in (first, second):
        job.runtime.database.close()

    assert used == ("old" if expires_in > 0 else "another runner refreshes the access token of gmail")
    assert (found, len(servers.token_requests)) == (["access-1"], 1)
    [stored] = world.rows(t.gmail_tokens)
    assert (stored.access_token, stored.leased_by) == ("access-1", None)


def runner_job(url: str, number: int) -> Job:
    """Of a runner with its own connection."""
    job = Job(number, "send_step_email", "email", "{}", 1, 1, 1)
    job.runtime = HandlerRuntime(Database(url), f"worker-{number}", cast(Guard, None))
    return job


@SQLITE
@pytest.mark.parametrize(
    ("credential", "value", "reason"),
    [
        ("DATABASE_URL", "", "DATABASE_URL must be the name of a setting that begins with SENDER_"),
        ("SENDER_NONE", "", "SENDER_NONE is not set, or is not one line of ASCII"),
        ("SENDER_X", "AC1", "SENDER_X must be the account SID and the token, as in AC…:token"),
    ],
)
def test_a_sender_with_a_wrong_credential_has_a_cooldown(
    world: World,
    clock: FrozenDateTimeFactory,
    monkeypatch: pytest.MonkeyPatch,
    credential: str,
    value: str,
    reason: str,
) -> None:
    """The reason names the setting, never its value."""
    if value:
        monkeypatch.setenv(credential, value)
    send_sms(world)
    world.change(t.sender_accounts, credential=credential)

    drained = pass_time(clock, HOUR)

    [sender] = world.rows(t.sender_accounts)
    assert sender.cooldown_reason == reason
    assert drained.runs[-1].outcome.waiting_for == "all senders have a cooldown"


@SQLITE
def test_healthy_senders_send_first(world: World, servers: MessageServers, clock: FrozenDateTimeFactory) -> None:
    """An account with bad health only sends what is left: the quota of the others is used first."""
    world.sender("ann", health=40)
    world.sender("bob", limit=3)
    world.contacts(4)
    world.campaign()
    launch(database(), "spring")

    pass_time(clock, 2 * HOUR)

    senders = sorted(each.sender for each in servers.received)
    assert senders == ["ann@shop.example", *3 * ["bob@shop.example"]]


@SQLITE
def test_a_voice_message_is_spoken_text(world: World, servers: MessageServers, clock: FrozenDateTimeFactory) -> None:
    """Escaped, so that no field can add instructions."""
    world.sender("voice", "twilio")
    world.contacts(1, name="<Dial>+1900</Dial>")
    world.campaign(StepSpec("voicemail"))
    launch(database(), "spring")

    pass_time(clock, HOUR)

    [received] = servers.received
    assert received.text == "<Response><Say>Dear &lt;Dial&gt;+1900&lt;/Dial&gt;</Say></Response>"
