"""Contacts, senders and campaigns of a simulated year and of a run in real time, and what happens to them."""

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from handlers.campaigns import tables as t
from handlers.mail.tables import templates
from tests.handlers.campaigns.feedback import Feedback
from tests.handlers.campaigns.invariants import (
    SentMessage,
    assert_all_enrolled,
    assert_in_business_hours,
    assert_in_order,
    assert_not_after,
    assert_nothing_lost,
    assert_once,
    assert_recorded,
    assert_suppressed,
    assert_within_limits,
    assert_within_slots,
    known_stops,
    read_messages,
    step_texts,
)
from tests.handlers.campaigns.servers import Fault, MessageServers
from tests.handlers.campaigns.world import StepSpec, World

DAY, NO_TIME = timedelta(days=1), timedelta(0)
MISSING_MAILBOX = 41  # every so many
FEEDBACK_WEIGHTS = {None: 90, "reply": 5, "unsubscribe": 2, "bounce": 2, "complain": 1}  # percent of messages
NAMES = {1: "winter", 2: "spring", 3: "autumn"}
CHANNELS = {1: ("email", "sms", "email"), 2: ("email", "email", "voicemail"), 3: ("email", "sms", "email", "email")}
CREDENTIALS = {"smtp": "SENDER_SMTP", "gmail": "SENDER_GMAIL_1", "twilio": "SENDER_TWILIO"}


class Scale(NamedTuple):
    contacts: int
    senders: int
    daily_limit: int


class Scenario:
    """What operators, contacts and providers do. `reported` and `refused` are for the check of the outcome."""

    def __init__(
        self, world: World, servers: MessageServers, feedback: Feedback, scale: Scale, zones: Sequence[str]
    ) -> None:
        self.world, self.servers, self.feedback, self.scale, self.zones = world, servers, feedback, scale, zones
        self.random = random.Random(3)
        self.reported: dict[int, datetime] = {}  # contact: when it was reported
        self.refused: set[str] = set()  # addresses without a mailbox
        self.allowed: dict[tuple[int, str], int] = defaultdict(int)  # sender and date: the highest limit of that day
        self._seen = 0
        self._add_contacts()
        self._add_senders()
        servers.fault, servers.smtp_reply = self.fault, self.smtp_reply

    # --- rows ---------------------------------------------------------------------------------------------

    def _add_contacts(self) -> None:
        """In three lead groups, a sixth in each zone; every tenth has no zone, a few are there twice."""
        self.world.add_contacts([self._contact(number) for number in range(1, self.scale.contacts + 1)])

    def _contact(self, number: int) -> dict[str, Any]:
        same = number - (number % 14 == 0)  # a duplicate address
        return {
            "lead_group_id": 1 + number // 2 % 3,
            "zone": None if number % 10 == 0 else self.zones[number % 6],
            "company": f"Company {number % 50}",
            "email": f"{same}@d{same % 40}.example",
            "phone": f"+4930{number - (number % 11 == 0):06}",
        }

    def _add_senders(self) -> None:
        """Most send email; all are in warm-up."""
        daily = self.scale.daily_limit
        for number in range(1, self.scale.senders + 1):
            provider = ("smtp", "gmail", "twilio")[0 if number % 4 == 0 else number % 3]
            curve = [daily // 4, daily // 3, daily // 2]
            self.world.sender(
                f"s{number}", provider, zone=self.zones[number % 6], limit=curve[0], curve=curve, daily_limit=daily,
                credential=CREDENTIALS[provider],
            )  # fmt: skip

    def add_campaign(self, number: int, days_apart: int = 0, **columns: Any) -> None:
        """Each of two lead groups. With `days_apart` the steps have days and waits, otherwise all are due at once."""
        keys = step_texts(self.world, number, len(CHANNELS[number]))
        steps = [
            StepSpec(channel, 2 * days_apart * (index // 2), days_apart * (index % 2), key)
            for index, (channel, key) in enumerate(zip(CHANNELS[number], keys, strict=True))
        ]
        self.world.campaign(*steps, name=NAMES[number], groups=(number, number % 3 + 1), **columns)

    # --- events -------------------------------------------------------------------------------------------

    def edit_template(self) -> None:
        """The marker stays."""
        change = {"subject": "campaign 2 step 3, edited", "text_body": "campaign 2 step 3, edited"}
        self.world.change(templates, templates.c.template_key == "c2s3", **change)

    def ban(self, now: datetime) -> None:
        bans = [("domain", "d5.example"), ("company", "company 9"), ("address", "3@d3.example")]
        self.world.insert(t.bans, *({"kind": kind, "value": value, "created_at": now} for kind, value in bans))

    def revoke_gmail(self) -> None:
        self.servers.revoked.add("refresh-1")

    def restore_gmail(self) -> None:
        self.servers.revoked.discard("refresh-1")

    def report_feedback(self, now: datetime) -> None:
        """Some contacts reply to the messages since the last call, unsubscribe, complain; some mail has bounced."""
        received = self.servers.received[self._seen :]
        self._seen += len(received)
        for message in read_messages(self.world, received) if received else ():
            [event] = self.random.choices(list(FEEDBACK_WEIGHTS), list(FEEDBACK_WEIGHTS.values()))
            if event is not None:
                self._report(message, event, now)

    def _report(self, message: SentMessage, event: str, now: datetime) -> None:
        [contact] = self.world.rows(t.contacts, t.contacts.c.id == message.contact)
        about = () if event == "unsubscribe" else (message,)
        getattr(self.feedback, event)(contact.email, *about)
        for same in self.world.rows(t.contacts, t.contacts.c.email == contact.email):
            self.reported.setdefault(same.id, now)

    def note_limits(self, now: datetime) -> None:
        """For both dates of the sender's zone during this UTC day."""
        for row in self.world.rows(t.sender_accounts):
            for at in (now, now + DAY - timedelta.resolution):
                key = row.id, at.astimezone(ZoneInfo(row.zone)).date().isoformat()
                self.allowed[key] = max(self.allowed[key], row.current_limit)

    def assert_every_promise(
        self, messages: Sequence[SentMessage], lag: timedelta = NO_TIME, report_lag: timedelta = NO_TIME
    ) -> None:
        """A message may arrive up to `lag` after the last check of its job, and an event may be recorded up to
        `report_lag` after it was reported."""
        world, stops = self.world, known_stops(self.world)
        assert_once(messages)
        assert_in_order(messages)
        assert_in_business_hours(world, messages, lag)
        assert_recorded(stops, self.reported, report_lag)
        assert_suppressed(world, self.refused)
        assert_not_after(messages, stops, lag)
        assert_within_limits(world, messages, self.allowed, lag)
        assert_within_slots(world, messages, lag)
        assert_all_enrolled(world, stops)
        assert_nothing_lost(world, messages, stops)

    # --- providers ----------------------------------------------------------------------------------------

    def smtp_reply(self, recipient: str) -> str | None:
        """A few servers are busy at first."""
        busy = "451 try again" if self.random.random() < 0.02 else None
        return self.missing_mailbox(recipient) or busy

    def missing_mailbox(self, recipient: str) -> str | None:
        if int(recipient.partition("@")[0]) % MISSING_MAILBOX:
            return None
        self.refused.add(recipient)
        return "550 5.1.1 no such user"

    def fault(self, _path: str) -> Fault | None:
        faults = [None, Fault(503), Fault(429, (("Retry-After", "120"),)), Fault(0, accepts=True), Fault(0)]
        return self.random.choices(faults, [95, 2, 2, 0.5, 0.5])[0]
