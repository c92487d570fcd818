"""What must hold for every message of every campaign, checked from what the servers received."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from handlers.campaigns import tables as t
from tests.handlers.campaigns.servers import Received
from tests.handlers.campaigns.world import World

MARKER = re.compile(r"campaign (\d+) step (\d+)")  # in the texts of all templates


class SentMessage(NamedTuple):
    campaign: int
    step: int  # number within its campaign
    contact: int
    sender: str
    at: datetime
    message_id: str  # of an email


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
    counts = Counter((each.campaign, each.step, each.contact) for each in messages)

    assert [key for key, number in counts.items() if number > 1] == []


def assert_in_order(messages: Sequence[SentMessage]) -> None:
    """Each contact got the steps of a campaign in their order."""
    steps: dict[tuple[int, int], list[int]] = defaultdict(list)
    for each in messages:
        steps[each.campaign, each.contact].append(each.step)

    assert {key: found for key, found in steps.items() if found != sorted(found)} == {}


def assert_in_business_hours(world: World, messages: Sequence[SentMessage], holidays: set[date]) -> None:
    """From nine to five on weekdays that are no holidays, by the clock of the contact."""
    zones = {row.id: row.zone for row in world.rows(t.contacts)}
    campaign_zones = {row.id: row.zone for row in world.rows(t.campaigns)}
    for each in messages:
        wall = each.at.astimezone(ZoneInfo(zones[each.contact] or campaign_zones[each.campaign]))
        assert 9 <= wall.hour < 17, f"{wall}: {each}"
        assert wall.isoweekday() <= 5, f"{wall}: {each}"
        assert wall.date() not in holidays, f"{wall}: {each}"


def assert_not_after(
    messages: Sequence[SentMessage], stops: Mapping[int, datetime], margin: timedelta = timedelta(0)
) -> None:
    """No contact got a message after its reply, bounce, ban or unsubscription was known."""
    late = [each for each in messages if each.contact in stops and each.at > stops[each.contact] + margin]

    assert late == []


def assert_within_limits(
    world: World, messages: Sequence[SentMessage], allowed: Mapping[tuple[int, str], int]
) -> None:
    """No sender sent more than its limit on any day of its zone. `allowed` is by sender and date."""
    senders = {row.address: (row.id, ZoneInfo(row.zone)) for row in world.rows(t.sender_accounts)}
    counts: Counter[tuple[int, str]] = Counter()
    for each in messages:
        number, zone = senders[each.sender]
        counts[number, each.at.astimezone(zone).date().isoformat()] += 1

    assert {key: number for key, number in counts.items() if number > allowed.get(key, 0)} == {}


def assert_nothing_lost(world: World, messages: Sequence[SentMessage]) -> None:
    """Each enrolled contact has an ended execution of each step, unless it was stopped; SENT is what arrived."""
    numbers = {row.id: number for row, number in _numbered_steps(world)}
    received = {(each.campaign, each.step, each.contact) for each in messages}
    by_key = {(row.campaign_id, numbers[row.step_id], row.contact_id): row for row in world.rows(t.executions)}
    sent = {key for key, row in by_key.items() if row.status == t.SENT}
    in_doubt = {key for key, row in by_key.items() if "outcome unknown" in (row.reason or "")}
    enrolled = world.rows(t.enrolments)
    replied = {row.id for row in world.rows(t.contacts, t.contacts.c.replied_at.is_not(None))}
    steps = Counter(campaign for campaign, _ in {(key[0], key[1]) for key in by_key})
    missing = [
        (row.campaign_id, number, row.contact_id)
        for row in enrolled
        if row.stopped_at is None and row.contact_id not in replied
        for number in range(1, steps[row.campaign_id] + 1)
        if (row.campaign_id, number, row.contact_id) not in by_key
    ]

    assert {row.status for row in by_key.values()} <= {*t.ENDED_STATUSES, t.CANCELLED}
    assert sent <= received <= sent | in_doubt
    assert missing == []


def _numbered_steps(world: World) -> list[tuple[Any, int]]:
    """With their number within the campaign; the groups of a campaign have ascending ids and days."""
    campaign_of = {row.id: row.campaign_id for row in world.rows(t.step_groups)}
    numbers: Counter[int] = Counter()
    found = []
    for row in world.rows(t.steps):
        numbers[campaign_of[row.group_id]] += 1
        found.append((row, numbers[campaign_of[row.group_id]]))
    return found
