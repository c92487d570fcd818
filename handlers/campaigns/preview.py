"""Preview a campaign: who gets what and when. Reads only; the same functions as for real decide."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from handlers.campaigns.campaign import Campaign, CampaignStep, find_campaign, launch_delay, load_steps
from handlers.campaigns.enrolment import contacts_of, exclusions, keys_of
from handlers.campaigns.planning import unreachable
from handlers.campaigns.senders import open_board
from handlers.campaigns.slots import SlotBoard
from handlers.payloads import DEFAULT_TENANT
from handlers.scope import Scope

PAGE_SIZE = 1000


class PreviewLine(NamedTuple):
    contact_id: int
    name: str
    step: int  # from 1
    channel: str
    template: str
    at: datetime | None
    zone: str
    reason: str | None  # why nothing is sent


def preview(scope: Scope, name: str, tenant_id: str = DEFAULT_TENANT) -> list[PreviewLine]:
    """As if it were launched now, all messages were sent when they are due, and no contact replied."""
    now = scope.now + launch_delay()
    return scope.read(lambda connection: list(_lines(connection, find_campaign(connection, tenant_id, name), now)))


def _lines(connection: Connection, campaign: Campaign, now: datetime) -> Iterator[PreviewLine]:
    steps = load_steps(connection, campaign.id)
    enrolled, excluded = _contacts(connection, campaign)
    for contact, reason in excluded:
        zone = contact.zone or str(campaign.hours.zone)
        yield PreviewLine(contact.id, contact.name, 0, "", "", None, zone, reason)
    boards: dict[str, SlotBoard | None] = {}
    sent_at: dict[int, tuple[datetime, int]] = {}  # contact: time and day of the last message
    for number, step in enumerate(steps, 1):
        if step.channel not in boards:
            boards[step.channel] = open_board(connection, campaign, step.channel, now)
        for contact in enrolled:
            yield _line(campaign, number, step, contact, boards[step.channel], now, sent_at)


def _line(
    campaign: Campaign,
    number: int,
    step: CampaignStep,
    contact: Row[Any],
    board: SlotBoard | None,
    now: datetime,
    sent_at: dict[int, tuple[datetime, int]],
) -> PreviewLine:
    zone = contact.zone or str(campaign.hours.zone)
    line = PreviewLine(contact.id, contact.name, number, step.channel, step.template_key, None, zone, None)
    reason = unreachable(step.channel, contact)
    if reason is not None or board is None:
        return line._replace(reason=reason or f"no sender account can send {step.channel}")
    earliest = now + timedelta(days=step.days)
    if contact.id in sent_at:
        last_at, day = sent_at[contact.id]
        earliest = max(earliest, last_at + timedelta(days=step.days - day))
    at = board.assign(contact.zone, earliest, f"{step.id}:{contact.id}").at
    sent_at[contact.id] = at, step.days
    return line._replace(at=at)


def _contacts(
    connection: Connection, campaign: Campaign
) -> tuple[list[Row[Any]], list[tuple[Row[Any], str]]]:  # fmt: skip
    """Those that would be enrolled, and the others with the reason."""
    found = connection.execute(contacts_of(campaign)).all()
    reasons: dict[int, str] = {}
    for first in range(0, len(found), PAGE_SIZE):
        reasons |= exclusions(connection, campaign.tenant_id, found[first : first + PAGE_SIZE])
    seen: set[str] = set()
    for contact in found:
        keys = {key for key in keys_of(contact).values() if key}
        if contact.id not in reasons and keys & seen:
            reasons[contact.id] = "duplicate"
        if contact.id not in reasons:
            seen |= keys
    enrolled = [each for each in found if each.id not in reasons]
    return enrolled, [(each, reasons[each.id]) for each in found if each.id in reasons]
