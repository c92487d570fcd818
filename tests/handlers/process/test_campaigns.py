"""A campaign in real time: runners and dispatchers are killed, providers fail, and every promise is kept."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from handlers.campaigns import tables as t
from mayfly.clock import host_now
from tests.handlers.campaigns.invariants import (
    SentMessage,
    assert_in_order,
    assert_not_after,
    assert_once,
    assert_within_limits,
    read_messages,
    step_texts,
)
from tests.handlers.campaigns.servers import Fault, MessageServers, Received, message_servers
from tests.handlers.campaigns.world import StepSpec, World
from tests.process.installation import RUN_SECONDS, Installation, wait_until

JOB_TIMEOUT = timedelta(seconds=45)  # between the check for replies and the arrival of the message
KILL_EVERY_SECONDS = 1.5
STEPS = ("email", "sms", "email")
LIVE = "SELECT 1 FROM mayfly_jobs WHERE status = 'processing' OR (status = 'pending' AND run_at <= :soon) LIMIT 1"
SETTINGS = {"CAMPAIGN_LAUNCH_DELAY": "0", "MAX_WORKERS": "3", "BACKOFF_BASE": "0.1", "BACKOFF_CAP": "1"}


def test_a_campaign_survives_kills_and_failing_providers(installation: Installation) -> None:
    """In seconds; the slow test below does the same for two minutes on every database."""
    with message_servers(host_now) as servers, closing(World(installation.url)) as world:
        trial = Trial(installation, servers, world, contacts=30, senders=4)
        run_under_kills(trial, seconds=5, least_kills=2)


@pytest.mark.slow
@pytest.mark.every_database
def test_a_campaign_survives_two_minutes_of_kills_and_failing_providers(installation: Installation) -> None:
    """Providers time out, too. On every database."""
    with message_servers(host_now) as servers, closing(World(installation.url)) as world:
        trial = Trial(installation, servers, world, contacts=400, senders=9, times_out=True)
        run_under_kills(trial, seconds=120, least_kills=20)


class Trial:
    """A campaign whose contacts are half in a zone where it is noon, and a tenth where it is night."""

    def __init__(
        self,
        installation: Installation,
        servers: MessageServers,
        world: World,
        contacts: int,
        senders: int,
        times_out: bool = False,
    ) -> None:
        self.installation, self.servers, self.times_out = installation, servers, times_out
        self.contacts = contacts
        installation.settings = {**SETTINGS, **servers.settings}
        self.random, self.world = random.Random(5), world
        self.replies: SimpleQueue[str] = SimpleQueue()
        noon, midnight = (zone_where_it_is(hour) for hour in (12, 0))
        self.asleep = set(self.world.contacts(contacts // 10, zone=midnight))
        self.world.contacts(contacts - contacts // 10, zone=noon)
        limit = contacts * 2 // senders  # not enough for three steps
        for number in range(senders):
            provider = ("smtp", "gmail", "twilio")[number % 3]
            self.world.sender(f"s{number}", provider, zone=noon, limit=limit, credential=_credential(provider))
        keys = step_texts(self.world, 1, len(STEPS))
        steps = [StepSpec(channel, template=key) for channel, key in zip(STEPS, keys, strict=True)]
        self.world.campaign(*steps, zone=noon, weekdays="1234567", slot_seconds=1, per_slot=2)
        servers.fault, servers.smtp_reply, servers.on_message = self._fault, self._smtp_reply, self._maybe_reply

    def _fault(self, _path: str) -> Fault | None:
        if self.times_out and self.random.random() < 0.005:
            return Fault(accepts=self.random.random() < 0.5, silent_seconds=20)
        faults = [None, Fault(503), Fault(429, (("Retry-After", "1"),)), Fault(429), Fault(0, accepts=True), Fault(0)]
        return self.random.choices(faults, [85, 4, 4, 4, 1, 2])[0]

    def _smtp_reply(self, _recipient: str) -> str | None:
        return self.random.choices([None, "451 try again", "421 too many connections"], [90, 5, 5])[0]

    def _maybe_reply(self, message: Received) -> None:
        if self.random.random() < 0.1:
            self.replies.put(message.to)

    # --- jobs ---------------------------------------------------------------------------------------------

    def enqueue_replies_and_followups(self) -> None:
        with suppress(Empty):
            while True:
                payload = json.dumps({"address": self.replies.get_nowait(), "event": "replied"})
                self.installation.enqueue("record_contact_event", payload, lane="send_campaign")
        waiting = "SELECT 1 FROM mayfly_jobs WHERE type = 'process_followups' AND status = 'pending'"
        if not self.installation.rows(waiting):
            self.installation.enqueue("process_followups", lane="send_campaign")

    def is_idle(self) -> bool:
        """No job is due now or in the next slots."""
        soon = self.installation.now() + timedelta(seconds=5)
        return not self.installation.rows(LIVE, soon=soon.replace(tzinfo=None))

    def make_retries_due(self) -> None:
        """The backoff after a failed attempt is a minute."""
        now = f"{self.installation.now():%Y-%m-%d %H:%M:%S.%f}"
        failed = "status = 'pending' AND attempts > 0 AND waiting_for IS NULL"
        self.installation.execute(f"UPDATE mayfly_jobs SET run_at = '{now}' WHERE {failed}")


def _credential(provider: str) -> str:
    return {"smtp": "SENDER_SMTP", "gmail": "SENDER_GMAIL_1", "twilio": "SENDER_TWILIO"}[provider]


def zone_where_it_is(hour: int) -> str:
    """For an hour at least, so that the trial ends before the business hours do. POSIX zones have inverted signs."""
    offset = (hour - datetime.now(UTC).hour + 11) % 24 - 11
    return f"Etc/GMT{-offset:+d}" if offset else "Etc/GMT"


def run_under_kills(trial: Trial, seconds: float, least_kills: int) -> None:
    installation = trial.installation
    launched = installation.run("mayfly", "campaigns", "launch", "spring")
    assert launched.stdout.startswith("Campaign spring starts at "), launched.stderr

    kills = kill_at_random(trial, seconds)
    finish(trial)

    messages = read_messages(trial.world, trial.servers.received)
    print(f"{len(messages)} messages, {kills} kills, {trial.world.statuses()}")
    assert kills >= least_kills
    assert len(messages) > trial.contacts // 2
    assert_once(messages)
    assert_in_order(messages)
    assert {each.contact for each in messages} & trial.asleep == set()
    limits = {(row.sender_id, row.local_date): row.day_limit for row in trial.world.rows(t.sender_days)}
    assert_within_limits(trial.world, messages, limits)
    assert {row.day_limit for row in trial.world.rows(t.sender_days)} == {
        row.daily_limit for row in trial.world.rows(t.sender_accounts)
    }
    stops = {row.contact_id: row.stopped_at for row in trial.world.rows(t.enrolments) if row.stopped_at}
    assert_not_after(messages, stops, JOB_TIMEOUT)
    assert_each_execution_is_explained(trial, messages)


def kill_at_random(trial: Trial, seconds: float) -> int:
    """Cycles one after the other; now and then a runner or the dispatcher dies."""
    installation, kills, ends_at = trial.installation, 0, time.monotonic() + seconds
    while time.monotonic() < ends_at:
        trial.enqueue_replies_and_followups()
        cycle = installation.start("dispatcher")
        kill_at = time.monotonic() + trial.random.random() * KILL_EVERY_SECONDS
        while cycle.poll() is None:
            if time.monotonic() >= kill_at:
                pids = installation.runner_pids()
                victim = trial.random.choice([*pids, *pids, cycle.pid])
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                    kills += 1
                kill_at = time.monotonic() + KILL_EVERY_SECONDS
            trial.enqueue_replies_and_followups()
            time.sleep(0.02)
        cycle.wait(RUN_SECONDS)
    return kills


def finish(trial: Trial) -> None:
    """Without kills and faults, until all jobs that can run today have ended."""
    trial.servers.fault, trial.servers.smtp_reply = (lambda _path: None), (lambda _recipient: None)
    before = None
    while before != (before := sorted(trial.world.statuses().items())):
        trial.enqueue_replies_and_followups()
        trial.make_retries_due()
        wait_until(lambda: _cycled_until_idle(trial), "all jobs have ended", RUN_SECONDS)


def _cycled_until_idle(trial: Trial) -> bool:
    trial.installation.dispatch()
    return trial.is_idle()


# --- laws -------------------------------------------------------------------------------------------------


def message_jobs(trial: Trial) -> Iterator[tuple[tuple[int, int], Any]]:
    """The job of each step and contact."""
    for row in trial.installation.rows("SELECT * FROM mayfly_jobs WHERE type LIKE 'send_step_%'"):
        payload = json.loads(row.payload)
        yield (payload["step"], payload["contact"]), row


def assert_each_execution_is_explained(trial: Trial, messages: list[SentMessage]) -> None:
    """SENT is what arrived; what may have arrived is FAILED; what is open has a live job, or waits for one."""
    jobs = dict(message_jobs(trial))
    received = {(each.step, each.contact) for each in messages}
    rows = {(row.step_id, row.contact_id): row for row in trial.world.rows(t.executions)}
    sent = {key for key, row in rows.items() if row.status == t.SENT}
    in_doubt = {key for key, row in rows.items() if "outcome unknown" in (row.reason or "")}
    crashed = {key for key, job in jobs.items() if job.status == "dead" and rows[key].status == t.QUEUED}
    lost = {
        key
        for key, row in rows.items()
        if row.status == t.QUEUED and jobs[key].status != "pending" and key not in crashed
    }
    enrolled = {row.contact_id for row in trial.world.rows(t.enrolments)}

    assert enrolled == {row.id for row in trial.world.rows(t.contacts)}
    assert sent <= received <= sent | in_doubt | crashed
    assert lost == set()
    assert {key[1] for key in rows if key[0] == 1} == enrolled
