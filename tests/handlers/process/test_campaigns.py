"""Campaigns in real time: runners and dispatchers are killed, providers fail, and every promise is kept."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mayfly.clock import host_now
from mayfly.testing import using_database
from tests.handlers.campaigns.feedback import Feedback
from tests.handlers.campaigns.invariants import read_messages
from tests.handlers.campaigns.scenario import NAMES, Scale, Scenario
from tests.handlers.campaigns.servers import Fault, MessageServers, message_servers
from tests.handlers.campaigns.world import World
from tests.process.installation import RUN_SECONDS, Installation, wait_until

JOB_TIMEOUT = timedelta(seconds=45)  # between the checks of a job and the arrival of its message
REPORT_LAG = timedelta(minutes=15)  # more than the whole test takes
FINISH_SECONDS = 300.0
MAX_SHARE = 10  # of the time for kills, if too few processes could be killed
KILL_EVERY_SECONDS = 1.5
DAY = timedelta(days=1)
LOCAL_HOURS = (12, 11, 13, 10, 0, 21)  # in the zones of the contacts: four are open, two are closed
NOON = 0  # their number
FEEDBACK_TYPES = ("process_inbound_email", "process_bounce", "record_contact_event")
LIVE = "SELECT 1 FROM mayfly_jobs WHERE status = 'processing' OR (status = 'pending' AND run_at <= :soon) LIMIT 1"
SETTINGS = {"CAMPAIGN_LAUNCH_DELAY": "0", "MAX_WORKERS": "3", "BACKOFF_BASE": "0.1", "BACKOFF_CAP": "1"}


def test_campaigns_survive_kills_and_failing_providers(installation: Installation) -> None:
    """In seconds; the slow test below does the same for two minutes on every database."""
    with opened(installation) as (servers, world):
        trial = Trial(installation, servers, world, Scale(contacts=24, senders=4, daily_limit=80))
        run_under_kills(trial, seconds=5, least_kills=2)


@pytest.mark.slow
@pytest.mark.every_database
def test_campaigns_survive_two_minutes_of_kills_and_failing_providers(installation: Installation) -> None:
    """Providers time out, too, and business hours end meanwhile. On every database."""
    with opened(installation) as (servers, world):
        scale = Scale(contacts=600, senders=9, daily_limit=500)
        trial = Trial(installation, servers, world, scale, times_out=True)
        run_under_kills(trial, seconds=120, least_kills=20)


@contextmanager
def opened(installation: Installation) -> Iterator[tuple[MessageServers, World]]:
    """Mail that contacts send is taken in by this process."""
    with (
        message_servers(host_now) as servers,
        closing(World(installation.url)) as world,
        using_database(installation.url),
    ):
        yield servers, world


class Trial:
    """The scenario of the simulated year, in a few seconds or minutes of one day."""

    def __init__(
        self, installation: Installation, servers: MessageServers, world: World, scale: Scale, times_out: bool = False
    ) -> None:
        self.installation, self.servers, self.world, self.times_out = installation, servers, world, times_out
        self.random = random.Random(5)
        installation.settings = {**SETTINGS, **servers.settings}
        zones = [zone_where_it_is(hour) for hour in LOCAL_HOURS]
        self.scenario = Scenario(world, servers, Feedback(self.enqueue), scale, zones)
        usual: dict[str, Any] = {"zone": zones[NOON], "weekdays": "1234567", "slot_seconds": 2, "per_slot": 3}
        self.scenario.add_campaign(1, **usual, hours=f"09:00-{closing_time(zones[NOON])}")
        self.scenario.add_campaign(2, **usual)
        self.scenario.add_campaign(3, **usual, holidays=[f"{host_now() + days * DAY:%F}" for days in (-1, 0, 1)])
        self.scenario.note_limits(host_now())
        servers.fault, servers.smtp_reply = self._fault, self._smtp_reply
        self._events = list(EVENTS)

    def _fault(self, _path: str) -> Fault | None:
        if self.times_out and self.random.random() < 0.005:
            return Fault(accepts=self.random.random() < 0.5, silent_seconds=20)
        faults = [None, Fault(503), Fault(429, (("Retry-After", "1"),)), Fault(429), Fault(0, accepts=True), Fault(0)]
        return self.random.choices(faults, [85, 4, 4, 4, 1, 2])[0]

    def _smtp_reply(self, recipient: str) -> str | None:
        busy = self.random.choices([None, "451 try again", "421 too many connections"], [90, 5, 5])[0]
        return self.scenario.missing_mailbox(recipient) or busy

    def act(self, share: float) -> None:
        """The events up to this share of the time, feedback of contacts, and follow-ups."""
        while self._events and self._events[0][0] <= share:
            self._events.pop(0)[1](self)
        self.scenario.report_feedback(host_now())
        waiting = "SELECT 1 FROM mayfly_jobs WHERE type = 'process_followups' AND status = 'pending'"
        if not self.installation.rows(waiting):
            self.enqueue("process_followups", {})

    def enqueue(self, type_name: str, payload: dict[str, str]) -> None:
        self.installation.enqueue(type_name, json.dumps(payload), lane="send_campaign")

    def command(self, verb: str, name: str) -> None:
        ended = self.installation.run("mayfly", "campaigns", verb, name)
        assert ended.returncode == 0, ended.stderr

    def retry_dead(self, type_name: str) -> None:
        ended = self.installation.run("mayfly", "retry", "--type", type_name, "--yes")
        assert ended.returncode == 0, ended.stderr

    def is_idle(self) -> bool:
        """No job is due now or in the next slots."""
        soon = self.installation.now() + timedelta(seconds=5)
        return not self.installation.rows(LIVE, soon=soon.replace(tzinfo=None))

    def make_due(self, condition: str) -> None:
        now = f"{self.installation.now():%Y-%m-%d %H:%M:%S.%f}"
        self.installation.execute(f"UPDATE mayfly_jobs SET run_at = '{now}' WHERE status = 'pending' AND {condition}")


EVENTS: tuple[tuple[float, Callable[[Trial], None]], ...] = (
    (0.15, lambda trial: trial.scenario.edit_template()),
    (0.25, lambda trial: trial.scenario.ban(host_now())),
    (0.35, lambda trial: trial.command("pause", NAMES[2])),
    (0.50, lambda trial: trial.command("resume", NAMES[2])),
    (0.60, lambda trial: trial.enqueue("reset_warmup", {})),
    (0.70, lambda trial: revoke_gmail(trial)),
)


def revoke_gmail(trial: Trial) -> None:
    """Its access token is not valid any more, either."""
    trial.scenario.revoke_gmail()
    trial.servers.tokens.clear()


def zone_where_it_is(hour: int) -> str:
    """For an hour at most. POSIX zones have inverted signs."""
    offset = (hour - datetime.now(UTC).hour + 11) % 24 - 11
    return f"Etc/GMT{-offset:+d}" if offset else "Etc/GMT"


def closing_time(zone: str) -> str:
    """In a minute or less, but not in the next ten seconds."""
    closes_at = host_now().astimezone(ZoneInfo(zone)) + timedelta(seconds=70)
    return f"{closes_at:%H:%M}"


def run_under_kills(trial: Trial, seconds: float, least_kills: int) -> None:
    for name in NAMES.values():
        trial.command("launch", name)

    kills = kill_at_random(trial, seconds, least_kills)
    finish(trial)

    messages = read_messages(trial.world, trial.servers.received)
    statuses = {name: trial.world.statuses(number) for number, name in NAMES.items()}
    print(f"{len(messages)} messages, {kills} kills, {statuses}")
    assert kills >= least_kills
    assert len(messages) > trial.scenario.scale.contacts // 2
    assert {each.campaign for each in messages} == {1, 2}  # for the third it is a holiday
    trial.scenario.assert_every_promise(messages, JOB_TIMEOUT, REPORT_LAG)


def kill_at_random(trial: Trial, seconds: float, least_kills: int) -> int:
    """Cycles one after the other; now and then a runner or the dispatcher dies. Longer if too few were killed."""
    installation, kills, began = trial.installation, 0, time.monotonic()
    while (share := (time.monotonic() - began) / seconds) < 1 or (kills < least_kills and share < MAX_SHARE):
        trial.act(min(share, 1))
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
                trial.act(min((time.monotonic() - began) / seconds, 1))
            time.sleep(0.02)
        cycle.wait(RUN_SECONDS)
    trial.act(1)
    return kills


def finish(trial: Trial) -> None:
    """Without kills and faults, until all jobs that can run today have ended.

    All messages are made due first, also those that are planned for another day. What contacts do is retried by hand
    if its jobs are dead: each was killed three times.
    """
    trial.servers.fault, trial.servers.smtp_reply = (lambda _path: None), trial.scenario.missing_mailbox
    trial.make_due("type LIKE 'send_step_%'")
    before: Any = None
    while before != (before := [trial.world.statuses(number) for number in NAMES]):
        trial.act(1)
        wait_until(lambda: _cycled_until_idle(trial), "all jobs have ended", FINISH_SECONDS)
        trial.make_due("attempts > 0 AND waiting_for IS NULL")  # the backoff after a failed attempt is a minute
        for type_name in FEEDBACK_TYPES:
            trial.retry_dead(type_name)
    wait_until(lambda: _cycled_until_idle(trial), "all jobs have ended", FINISH_SECONDS)
    trial.scenario.note_limits(host_now())


def _cycled_until_idle(trial: Trial) -> bool:
    trial.installation.dispatch()
    return trial.is_idle()
