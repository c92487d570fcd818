"""A simulated year: real handlers, real local servers, a stopped clock that is moved from job to job."""

import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from freezegun.api import FrozenDateTimeFactory

from handlers.campaigns import tables as t
from handlers.campaigns.campaign import launch, pause, resume
from handlers.mail.tables import templates
from mayfly import database, enqueue
from mayfly.clock import monotonic
from mayfly.testing import drain
from tests.handlers.campaigns.days import DAY, HOUR, MANY
from tests.handlers.campaigns.feedback import Feedback
from tests.handlers.campaigns.invariants import (
    SentMessage,
    assert_in_business_hours,
    assert_in_order,
    assert_not_after,
    assert_nothing_lost,
    assert_once,
    assert_within_limits,
    read_messages,
    step_texts,
)
from tests.handlers.campaigns.servers import Fault, MessageServers
from tests.handlers.campaigns.world import StepSpec, World

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
ZONES = (
    "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo", "Australia/Sydney",
)  # fmt: skip
HOLIDAYS = {date(2026, 1, 19), date(2026, 4, 3), date(2026, 4, 6), date(2026, 11, 26), date(2026, 12, 25)}
CHANNELS = (("email", "sms", "email"), ("email", "email", "voicemail"), ("email", "sms", "email", "email"))
LAUNCHES = {11: 1, 76: 2, 290: 3}  # day of the year: campaign; the last two run over changes of the clocks
LAUNCH_NAMES = {1: "winter", 2: "spring", 3: "autumn"}


class YearScale(NamedTuple):
    contacts: int
    senders: int


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "scale", [YearScale(60, 6), pytest.param(YearScale(2000, 20), marks=pytest.mark.slow)], ids=["small", "full"]
)
def test_a_year_of_campaigns_keeps_every_promise(
    world: World, servers: MessageServers, clock: FrozenDateTimeFactory, scale: YearScale
) -> None:
    """Replies, bounces, bans, pauses, edits, holidays, changes of the clocks: no message breaks a rule."""
    began = monotonic()
    year = Year(world, servers, clock, scale)

    for day in range(365):
        year.live(day)

    messages = read_messages(world, servers.received)
    print(f"{len(messages):,} messages of {scale.contacts:,} contacts in {monotonic() - began:.0f} s")
    assert {world.status_of(number) for number in LAUNCH_NAMES} == {"COMPLETED"}
    assert len(messages) > 3 * scale.contacts
    assert_once(messages)
    assert_in_order(messages)
    assert_in_business_hours(world, messages, HOLIDAYS)
    assert_not_after(messages, year.stops)
    assert_within_limits(world, messages, year.allowed)
    assert_nothing_lost(world, messages)
    assert {each.at.month for each in messages} >= {1, 3, 4, 10, 11}
    assert len(year.stops) > scale.contacts / 20


class Year:
    """One year of the platform: what operators and contacts do each day."""

    def __init__(self, world: World, servers: MessageServers, clock: FrozenDateTimeFactory, scale: YearScale) -> None:
        self.world, self.servers, self.clock, self.scale = world, servers, clock, scale
        self.feedback = Feedback(enqueue)
        self.random = random.Random(3)
        self.stops: dict[int, datetime] = {}  # contact: when it was known
        self.allowed: dict[tuple[int, str], int] = defaultdict(int)  # sender and date: the highest limit of that day
        self._seen = 0
        clock.move_to(NEW_YEAR)
        self._add_contacts()
        self._add_senders()
        self._add_campaigns()
        servers.fault = self._fault
        servers.smtp_reply = self._smtp_reply

    def _add_contacts(self) -> None:
        """In three lead groups, a sixth in each zone; every tenth has no zone, a few are there twice."""
        for number in range(1, self.scale.contacts + 1):
            zone = None if number % 10 == 0 else ZONES[number % 6]
            columns = {"zone": zone, "company": f"Company {number % 50}", "email": f"{number}@d{number % 40}.example"}
            if number % 14 == 0:
                columns["email"] = f"{number - 1}@d{(number - 1) % 40}.example"
            phone = f"+4930{number - (number % 11 == 0):06}"
            self.world.contacts(1, group=1 + number // 2 % 3, phone=phone, **columns)

    def _add_senders(self) -> None:
        """Most send email; all are in warm-up."""
        daily = max(8, self.scale.contacts // 60)
        for number in range(1, self.scale.senders + 1):
            provider = ("smtp", "gmail", "twilio")[0 if number % 4 == 0 else number % 3]
            zone, curve = ZONES[number % 6], [daily // 4, daily // 3, daily // 2]
            self.world.sender(
                f"s{number}", provider, zone=zone, limit=curve[0], curve=curve, daily_limit=daily,
                credential="SENDER_GMAIL_1" if provider == "gmail" else f"SENDER_{provider.upper()}",
            )  # fmt: skip

    def _add_campaigns(self) -> None:
        for number, name in LAUNCH_NAMES.items():
            keys = step_texts(self.world, number, len(CHANNELS[number - 1]))
            steps = [
                StepSpec(channel, day=14 * (index // 2), wait_days=5 * (index % 2), template=key)
                for index, (channel, key) in enumerate(zip(CHANNELS[number - 1], keys, strict=True))
            ]
            groups = (number, number % 3 + 1)
            self.world.campaign(*steps, name=name, groups=groups, holidays=[f"{each:%F}" for each in HOLIDAYS])

    def live(self, day: int) -> None:
        now = NEW_YEAR + day * DAY
        if day in LAUNCHES:
            launch(database(), LAUNCH_NAMES[LAUNCHES[day]])
        for number, start in ((2, 80), (3, 294)):
            if day == start:
                pause(database(), LAUNCH_NAMES[number])
            if day == start + 5:
                resume(database(), LAUNCH_NAMES[number])
        if day == 78:
            self._edit_template()
        if day == 79:
            self._ban(now)
        (self.servers.revoked.add if day in (77, 291) else self.servers.revoked.discard)("refresh-1")
        self._answers_of_contacts(now)
        self._note_limits(now)
        enqueue("reset_warmup")
        if any(row.status == t.ACTIVE for row in self.world.rows(t.campaigns)):  # on other days they have no effect
            enqueue("process_followups", delay=HOUR)
            enqueue("process_followups", delay=DAY / 2)
            enqueue("close_campaigns", delay=DAY - HOUR)
        drain(advance=DAY, raises=False, most=MANY)
        self.clock.tick(DAY)
        self._note_limits(now)

    def _note_limits(self, now: datetime) -> None:
        """At the beginning and the end of the UTC day, for both dates of the sender."""
        for row in self.world.rows(t.sender_accounts):
            for at in (now, now + DAY - timedelta.resolution):
                key = row.id, at.astimezone(ZoneInfo(row.zone)).date().isoformat()
                self.allowed[key] = max(self.allowed[key], row.current_limit)

    def _edit_template(self) -> None:
        """The marker stays."""
        change = {"subject": "campaign 2 step 3, edited", "text_body": "campaign 2 step 3, edited"}
        self.world.change(templates, templates.c.template_key == "c2s3", **change)

    def _ban(self, now: datetime) -> None:
        bans = [("domain", "d5.example"), ("company", "company 9"), ("address", "3@d3.example")]
        self.world.insert(t.bans, *({"kind": kind, "value": value, "created_at": now} for kind, value in bans))
        for row in self.world.rows(t.contacts):
            if row.email.endswith("@d5.example") or row.company == "Company 9" or row.email == "3@d3.example":
                self.stops.setdefault(row.id, now)

    def _answers_of_contacts(self, now: datetime) -> None:
        """To the messages of the day before: some reply, unsubscribe, complain, or turn out to have bounced."""
        new = read_messages(self.world, self.servers.received[self._seen :])
        self._seen += len(new)
        for each in new:
            actions = (None, "reply", "unsubscribe", "bounce", "complain")
            action = self.random.choices(actions, [90, 5, 2, 2, 1])[0]
            if action is not None:
                self._report(each, action, now)

    def _report(self, message: SentMessage, action: str, now: datetime) -> None:
        [contact] = self.world.rows(t.contacts, t.contacts.c.id == message.contact)
        about = () if action == "unsubscribe" else (message,)
        getattr(self.feedback, action)(contact.email, *about)
        for same in self.world.rows(t.contacts, t.contacts.c.email == contact.email):
            self.stops.setdefault(same.id, now)

    def _smtp_reply(self, recipient: str) -> str | None:
        """A few mailboxes do not exist; a few servers are busy at first."""
        number = int(recipient.partition("@")[0])
        if number % 41 == 0:
            return "550 5.1.1 no such user"
        return "451 try again" if self.random.random() < 0.02 else None

    def _fault(self, _path: str) -> Fault | None:
        faults = [None, Fault(503), Fault(429, (("Retry-After", "120"),)), Fault(0, accepts=True), Fault(0)]
        return self.random.choices(faults, [95, 2, 2, 0.5, 0.5])[0]
