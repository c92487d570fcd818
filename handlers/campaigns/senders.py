"""Sender accounts: which one sends a message, its quota per day and slot, cooldowns, errors of providers."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, select, update

from handlers.campaigns.campaign import CHANNELS_OF, Campaign
from handlers.campaigns.payloads import StepMessage
from handlers.campaigns.slots import SlotBoard, SlotSender, local_date, slot_start
from handlers.campaigns.tables import MAX_REASON_LENGTH, QUEUED, executions, sender_accounts, sender_days
from handlers.upsert import insert_missing
from mayfly import BusinessHours, Job, enqueue

MIN_HEALTH = 50  # accounts below it send only what the others cannot
COOLDOWN = timedelta(hours=24)  # of an account whose login fails or whose access was revoked


class SenderFailed(Exception):
    """The account is at fault: a wrong password, a revoked access, a missing setting. Nothing was sent."""


class SenderBusy(Exception):
    """The account cannot send now; another one can. Nothing was sent."""


class MessageRefused(Exception):
    """The provider will never accept this message. Nothing was sent."""

    def __init__(self, reason: str, is_bounce: bool = False) -> None:
        super().__init__(reason)
        self.is_bounce = is_bounce


class AnswerUnknown(Exception):
    """The message was handed over, and no answer was read: it may have been sent."""


@dataclass(frozen=True)
class Sender:
    id: int
    tenant_id: str
    name: str
    provider: str
    address: str
    credential: str
    zone: ZoneInfo
    limit: int
    health: int
    cooldown_until: datetime | None
    sends: int = 0  # today

    @property
    def remaining(self) -> int:
        return self.limit - self.sends

    def is_cooling(self, now: datetime) -> bool:
        return self.cooldown_until is not None and self.cooldown_until > now


# Statements are constants where each message needs them: building one takes longer than its execution.
a, d, e = sender_accounts.c, sender_days.c, executions.c
SAME_COLUMNS = ("id", "tenant_id", "name", "provider", "address", "credential", "health", "cooldown_until")
ACCOUNTS: Select[Any] = (
    select(*(a[name] for name in SAME_COLUMNS), a.zone, a.current_limit)
    .where(a.tenant_id == bindparam("tenant"), a.provider.in_(bindparam("providers", expanding=True)))
    .order_by(a.id)
)
DAYS = select(sender_days).where(d.local_date.in_(bindparam("dates", expanding=True)))


def load_senders(connection: Connection, tenant_id: str, channel: str, now: datetime) -> list[Sender]:
    """All accounts of the tenant for this channel, with their figures of today."""
    providers = [name for name, channels in CHANNELS_OF.items() if channel in channels]
    rows = connection.execute(ACCOUNTS, {"tenant": tenant_id, "providers": providers}).all()
    dates = {local_date(now, _zone(row.zone)) for row in rows}
    days = connection.execute(DAYS, {"dates": sorted(dates)}).all() if dates else []
    today = {(row.sender_id, row.local_date): row for row in days}
    return [_sender(row, today.get((row.id, local_date(now, _zone(row.zone))))) for row in rows]


def _sender(row: Row[Any], today: Row[Any] | None) -> Sender:
    """The limit of a day is fixed when its first message is sent: reset_warmup changes that of the next one."""
    limit = row.current_limit if today is None else today.day_limit
    sends = 0 if today is None else today.sends
    same = {name: getattr(row, name) for name in SAME_COLUMNS}
    return Sender(zone=_zone(row.zone), limit=limit, sends=sends, **same)


@lru_cache(1000)
def _zone(name: str) -> ZoneInfo:
    return BusinessHours.parse(name).zone


def in_order(senders: Iterable[Sender], planned_id: int | None, now: datetime) -> list[Sender]:
    """Those that can send now: healthy ones first, then the planned one, then the one with the most quota left."""
    usable = [each for each in senders if each.remaining > 0 and not each.is_cooling(now)]
    return sorted(usable, key=lambda each: (each.health < MIN_HEALTH, each.id != planned_id, -each.remaining))


# --- quota ------------------------------------------------------------------------------------------------


class Reservation(Enum):
    """The result of `reserve`."""

    GRANTED = "granted"
    DAY_FULL = "the quota of all senders is used up"
    SLOT_FULL = "all senders have sent what fits into this slot"
    ENDED = "the execution is not queued any more"


IS_MESSAGE = and_(
    e.campaign_id == bindparam("of_campaign"),
    e.step_id == bindparam("of_step"),
    e.contact_id == bindparam("of_contact"),
)
UPDATE_MESSAGE = update(executions).where(IS_MESSAGE)
HELD: Select[Any] = select(e.status, e.sender_id, e.reserved_on, e.slot_at).where(IS_MESSAGE).with_for_update()
IS_DAY = and_(d.sender_id == bindparam("of_sender"), d.local_date == bindparam("of_date"))
DAY: Select[Any] = select(d.day_limit, d.sends).where(IS_DAY).with_for_update()
COUNT_SEND, UNCOUNT_SEND = (update(sender_days).where(IS_DAY).values(sends=d.sends + by) for by in (1, -1))
IN_SLOT = select(func.count()).where(
    e.sender_id == bindparam("of_sender"),
    e.slot_at >= bindparam("begins_at"),
    e.slot_at < bindparam("ends_at"),
    e.reserved_on.is_not(None),
)


def key_of(message: StepMessage) -> dict[str, Any]:
    """The parameters of IS_MESSAGE."""
    return {"of_campaign": message.campaign, "of_step": message.step, "of_contact": message.contact}


def reserve(job: Job, message: StepMessage, sender: Sender, campaign: Campaign) -> Reservation:
    """Count the message for this sender, its date of today and the current slot.

    The execution records what it counts for. So a repeated transaction counts once, and a run that was killed before
    it sent anything leaves nothing behind: the next reservation takes the earlier one back.
    """
    now, today = job.now, local_date(job.now, sender.zone)
    begins_at = slot_start(now, campaign.slot)
    slot = {"of_sender": sender.id, "begins_at": begins_at, "ends_at": begins_at + campaign.slot}

    def work(connection: Connection) -> Reservation:
        held = connection.execute(HELD, key_of(message)).one()
        if held.status != QUEUED:
            return Reservation.ENDED
        if (held.sender_id, held.reserved_on) == (sender.id, today) and held.slot_at >= begins_at:
            return Reservation.GRANTED
        _take_back(connection, message, held)
        day = _locked_day(connection, sender, today)
        if day.sends >= day.day_limit:
            return Reservation.DAY_FULL
        if connection.execute(IN_SLOT, slot).scalar_one() >= campaign.per_slot:  # after the lock of the sender's day
            return Reservation.SLOT_FULL
        connection.execute(COUNT_SEND, {"of_sender": sender.id, "of_date": today})
        reserved = {"sender_id": sender.id, "reserved_on": today, "slot_at": now}
        connection.execute(UPDATE_MESSAGE, {**key_of(message), **reserved})
        return Reservation.GRANTED

    return job.write(work)


def _locked_day(connection: Connection, sender: Sender, date: str) -> Row[Any]:
    key = {"of_sender": sender.id, "of_date": date}
    found = connection.execute(DAY, key).first()
    if found is None:
        day = {"sender_id": sender.id, "local_date": date, "day_limit": sender.limit, "sends": 0}
        insert_missing(connection, sender_days, {"tenant_id": sender.tenant_id, **day})
        found = connection.execute(DAY, key).one()
    return found


def release(job: Job, message: StepMessage) -> None:
    """The message was certainly not sent."""
    job.write(lambda connection: take_back(connection, message))


def keep_counted(job: Job, message: StepMessage) -> None:
    """The message may have been sent: it stays counted for the day, and sending it again counts once more."""
    job.write(lambda connection: connection.execute(UPDATE_MESSAGE, {**key_of(message), "reserved_on": None}))


def take_back(connection: Connection, message: StepMessage) -> None:
    _take_back(connection, message, connection.execute(HELD, key_of(message)).one())


def _take_back(connection: Connection, message: StepMessage, held: Row[Any]) -> None:
    if held.reserved_on is None:
        return
    connection.execute(UNCOUNT_SEND, {"of_sender": held.sender_id, "of_date": held.reserved_on})
    connection.execute(UPDATE_MESSAGE, {**key_of(message), "reserved_on": None})


# --- cooldowns and problems -------------------------------------------------------------------------------


def cool_down(job: Job, sender: Sender, reason: str) -> None:
    """Other senders take over. The first runner that finds the problem also enqueues a report of it."""
    short = " ".join(reason.split())[:MAX_REASON_LENGTH]
    now, until = job.now, job.now + COOLDOWN
    change = (
        update(sender_accounts)
        .where(sender_accounts.c.id == sender.id)
        .where(sender_accounts.c.cooldown_until.is_(None) | (sender_accounts.c.cooldown_until <= now))
        .values(cooldown_until=until, cooldown_reason=short)
    )

    def work(connection: Connection) -> None:
        if connection.execute(change).rowcount:
            payload = {"sender": sender.name, "reason": short}
            enqueue("report_sender", payload, connection=connection)

    job.write(work)


def count_problem(connection: Connection, sender_id: int, kind: str) -> None:
    """`bounces` or `complaints`: reset_warmup lowers the limit of the account."""
    column = sender_accounts.c[kind]
    connection.execute(update(sender_accounts).where(sender_accounts.c.id == sender_id).values({kind: column + 1}))


# --- slots ------------------------------------------------------------------------------------------------


def open_board(connection: Connection, campaign: Campaign, channel: str, now: datetime) -> SlotBoard | None:
    """The free slots of this channel's senders from now on; None if none of them may send anything at all.

    In use are the messages that are sent today, and those that any campaign has planned for later slots.
    """
    senders = [each for each in load_senders(connection, campaign.tenant_id, channel, now) if each.limit > 0]
    if not senders:
        return None
    in_slots = [SlotSender(each.id, each.zone, each.limit, each.cooldown_until) for each in senders]
    board = SlotBoard(campaign.hours, campaign.slot, campaign.per_slot, in_slots, now)
    for each in senders:
        board.by_day[each.id, local_date(now, each.zone)] += each.sends
    found = connection.execute(PLANNED_LATER, {"sender_ids": [each.id for each in senders], "now": now})
    board.occupy({(row.sender_id, row.slot_at): row.messages for row in found})
    return board


PLANNED_LATER = (
    select(e.sender_id, e.slot_at, func.count().label("messages"))
    .where(e.sender_id.in_(bindparam("sender_ids", expanding=True)), e.slot_at >= bindparam("now"))
    .where(e.status == QUEUED)
    .group_by(e.sender_id, e.slot_at)
)
