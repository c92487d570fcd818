"""What must hold for every message of every campaign, checked from what the servers received and from the tables."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from handlers.campaigns import tables as t
from handlers.suppressions import suppressions
from tests.handlers.campaigns.servers import Received
from tests.handlers.campaigns.world import World

MARKER = re.compile(r"campaign (\d+) step (\d+)")  # in the texts of all templates
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

Key = tuple[int, int, int]  # campaign, number of the step, contact


class SentMessage(NamedTuple):
    campaign: int
    step: int  # number within its campaign
    contact: int
    sender: str
    at: datetime
    message_id: str  # of an email

    @property
    def key(self) -> Key:
        return self.campaign, self.step, self.contact


def read_messages(world: World, received: Sequence[Received]) -> list[SentMessage]:
    """By their texts and recipients, in the order of their arrival."""
    contact_of = {
        (row.campaign_id, key): row.contact_id
        for row in world.rows(t.enrolments)
        for key in (row.email_key, row.phone_key)
    }
    found = []
    for each in received:
        marker = MARKER.search(each.text)
        assert marker is not None, f"a message without a marker: {each}"
        campaign, step = int(marker[1]), int(marker[2])
        found.append(
            SentMessage(campaign, step, contact_of[campaign, each.to], each.sender, each.at, each.message_id)
        )
    return sorted(found, key=lambda each: each.at)


def step_texts(world: World, campaign: int, steps: int) -> list[str]:
    """One template per step, with its marker; returns their keys."""
    keys = [f"c{campaign}s{number}" for number in range(1, steps + 1)]
    for number, key in enumerate(keys, 1):
        text = f"campaign {campaign} step {number}"
        world.template(key, subject=f"{text} for {{{{ name }}}}", text=f"{text} for {{{{ name }}}}")
    return keys


def assert_once(messages: Sequence[SentMessage]) -> None:
    """No contact got the same step twice."""
    counts = Counter(each.key for each in messages)

    assert [key for key, number in counts.items() if number > 1] == []


def assert_in_order(messages: Sequence[SentMessage]) -> None:
    """Each contact got the steps of a campaign in their order."""
    steps: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in messages:
        steps[each.campaign, each.contact].append(each.step)

    assert {key: found for key, found in steps.items() if found != sorted(found)} == {}


def assert_in_business_hours(world: World, messages: Sequence[SentMessage], lag: timedelta) -> None:
    """Of the campaign, on its weekdays, on no holiday, by the clock of the contact."""
    zones = {row.id: row.zone for row in world.rows(t.contacts)}
    campaigns = {row.id: row for row in world.rows(t.campaigns)}
    wrong = []
    for each in messages:
        campaign = campaigns[each.campaign]
        zone = ZoneInfo(zones[each.contact] or campaign.zone)
        if not any(_is_open(campaign, at.astimezone(zone)) for at in (each.at, each.at - lag)):
            wrong.append((each, each.at.astimezone(zone)))

    assert wrong == []


def _is_open(campaign: Any, wall: datetime) -> bool:
    opens, closes = (time.fromisoformat(text) for text in campaign.hours.split("-"))
    is_workday = str(wall.isoweekday()) in campaign.weekdays and wall.date().isoformat() not in campaign.holidays
    return is_workday and opens <= wall.time() < closes


def known_stops(world: World) -> dict[int, datetime]:
    """Contacts that must get nothing more, and since when: replied, bounced, unsubscribed, complained, banned."""
    found: dict[int, datetime] = {}
    for contact_id, at in _recorded_stops(world):
        found[contact_id] = min(at, found.get(contact_id, at))
    return found


def _recorded_stops(world: World) -> Iterator[tuple[int, datetime]]:
    suppressed = {row.address: row.created_at for row in world.rows(suppressions)}
    bans = {(row.kind, row.value): row.created_at for row in world.rows(t.bans)}
    for row in world.rows(t.enrolments, t.enrolments.c.stopped_at.is_not(None)):
        yield row.contact_id, row.stopped_at
    for row in world.rows(t.contacts):
        domain, company = row.email.partition("@")[2], row.company.lower()
        banned = (bans.get(key) for key in (("address", row.email), ("domain", domain), ("company", company)))
        times = (row.replied_at, suppressed.get(row.email), suppressed.get(row.phone), *banned)
        yield from ((row.id, at) for at in times if at is not None)


def assert_recorded(stops: Mapping[int, datetime], reported: Mapping[int, datetime], lag: timedelta) -> None:
    """No reply, bounce, complaint or unsubscription was lost."""
    late = {number: at for number, at in reported.items() if number not in stops or stops[number] > at + lag}

    assert late == {}


def assert_suppressed(world: World, addresses: set[str]) -> None:
    """Each address without a mailbox."""
    assert addresses - {row.address for row in world.rows(suppressions)} == set()


def assert_not_after(messages: Sequence[SentMessage], stops: Mapping[int, datetime], lag: timedelta) -> None:
    """No contact got a message after its reply, bounce, ban or unsubscription was known."""
    late = [each for each in messages if each.contact in stops and each.at > stops[each.contact] + lag]

    assert late == []


def assert_within_limits(
    world: World, messages: Sequence[SentMessage], allowed: Mapping[tuple[int, str], int], lag: timedelta
) -> None:
    """No sender sent more than its limit on any day of its zone. `allowed` is by sender and date."""
    senders = {row.address: (row.id, ZoneInfo(row.zone)) for row in world.rows(t.sender_accounts)}
    counts: Counter[tuple[int, str]] = Counter()
    for each in messages:
        number, zone = senders[each.sender]
        if _date(each.at, zone) == _date(each.at - lag, zone):  # otherwise it may count for the day before
            counts[number, _date(each.at, zone)] += 1

    assert {key: number for key, number in counts.items() if number > allowed.get(key, 0)} == {}


def _date(at: datetime, zone: ZoneInfo) -> str:
    return at.astimezone(zone).date().isoformat()


def assert_within_slots(world: World, messages: Sequence[SentMessage], lag: timedelta) -> None:
    """No sender sent more than n messages in any slot; a message arrives in its slot, up to `lag` later."""
    campaigns = {row.id: row for row in world.rows(t.campaigns)}
    numbers, arrived = _step_numbers(world), {each.key: each.at for each in messages}
    counts: Counter[tuple[int, int, datetime]] = Counter()
    apart = []
    for row in world.rows(t.executions, t.executions.c.reserved_on.is_not(None)):
        length = timedelta(seconds=campaigns[row.campaign_id].slot_seconds)
        counts[campaigns[row.campaign_id].per_slot, row.sender_id, _slot(row.slot_at, length)] += 1
        at = arrived.get((row.campaign_id, numbers[row.step_id], row.contact_id))
        if at is not None and abs(at - row.slot_at) > lag:
            apart.append((row, at))

    assert {key: number for key, number in counts.items() if number > key[0]} == {}
    assert apart == []


def _slot(at: datetime, length: timedelta) -> datetime:
    return EPOCH + (at - EPOCH) // length * length


def assert_all_enrolled(world: World, stops: Mapping[int, datetime]) -> None:
    """Each contact in the lead groups of a campaign, once per address and number, unless it was stopped before."""
    groups = defaultdict(set)
    for row in world.rows(t.campaign_lead_groups):
        groups[row.campaign_id].add(row.lead_group_id)
    keys = {(row.campaign_id, key) for row in world.rows(t.enrolments) for key in (row.email_key, row.phone_key)}
    missing = [
        (campaign, row.id)
        for row in world.rows(t.contacts)
        for campaign, of_campaign in groups.items()
        if row.lead_group_id in of_campaign and row.id not in stops
        if not {(campaign, row.email), (campaign, row.phone)} & keys
    ]

    assert missing == []


def assert_nothing_lost(world: World, messages: Sequence[SentMessage], stops: Mapping[int, datetime]) -> None:
    """SENT is what arrived, what may have arrived is FAILED, and what is open has a live job, or waits for one."""
    numbers = _step_numbers(world)
    rows = {(row.campaign_id, numbers[row.step_id], row.contact_id): row for row in world.rows(t.executions)}
    jobs = _message_jobs(world, numbers)
    received = {each.key for each in messages}
    sent = {key for key, row in rows.items() if row.status == t.SENT}
    in_doubt = {key for key, row in rows.items() if "outcome unknown" in (row.reason or "")}
    crashed = {key for key, row in rows.items() if row.status == t.QUEUED and "dead" in jobs[key]}
    without_job = {key for key, row in rows.items() if row.status == t.QUEUED and "pending" not in jobs[key]}
    unanswered = {key for key, row in rows.items() if row.status == t.PLANNED and not _waits(rows, key)}
    cancelled = {key for key, row in rows.items() if row.status == t.CANCELLED and key[2] not in stops}

    assert sent <= received <= sent | in_doubt | crashed
    assert without_job - crashed == set()
    assert unanswered == set()
    assert cancelled == set()
    assert _missing(world, numbers, rows, stops) == []


def _waits(rows: Mapping[Key, Any], key: Key) -> bool:
    """Whether the step before it has not ended."""
    return rows[key[0], key[1] - 1, key[2]].status in t.OPEN_STATUSES


def _missing(
    world: World, numbers: Mapping[int, int], rows: Mapping[Key, Any], stops: Mapping[int, datetime]
) -> list[Key]:
    """Messages of planned steps to enrolled contacts."""
    campaign_of = {row.id: row.campaign_id for row in world.rows(t.step_groups)}
    planned = [
        (campaign_of[row.group_id], numbers[row.id]) for row in world.rows(t.steps) if row.planned_at is not None
    ]
    enrolled = [row for row in world.rows(t.enrolments) if row.contact_id not in stops]
    return [
        (campaign, number, row.contact_id)
        for row in enrolled
        for campaign, number in planned
        if campaign == row.campaign_id and (campaign, number, row.contact_id) not in rows
    ]


def _message_jobs(world: World, numbers: Mapping[int, int]) -> dict[Key, set[str]]:
    """The statuses of all jobs of a message: each resume adds one."""
    found: dict[Key, set[str]] = defaultdict(set)
    for row in world.rows(t.jobs, t.jobs.c.type.like("send_step_%")):
        payload = json.loads(row.payload) if isinstance(row.payload, str) else row.payload
        found[payload["campaign"], numbers[payload["step"]], payload["contact"]].add(row.status)
    return found


def _step_numbers(world: World) -> dict[int, int]:
    """Their number within the campaign; the groups of a campaign have ascending ids and days."""
    campaign_of = {row.id: row.campaign_id for row in world.rows(t.step_groups)}
    counts: Counter[int] = Counter()
    found = {}
    for row in world.rows(t.steps):
        counts[campaign_of[row.group_id]] += 1
        found[row.id] = counts[campaign_of[row.group_id]]
    return found
