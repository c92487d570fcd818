"""Sender accounts: which one sends a message, its quota per day of its zone, cooldowns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, select, update

from handlers.campaigns.campaign import CHANNELS_OF
from handlers.campaigns.payloads import StepMessage
from handlers.campaigns.slots import SlotBoard, SlotSender, local_date
from handlers.campaigns.tables import MAX_REASON_LENGTH, QUEUED, executions, sender_accounts, sender_days
from handlers.upsert import insert_missing
from mayfly import BusinessHours, Job, enqueue

MIN_HEALTH = 50  # accounts below it send only what the others cannot
COOLDOWN = timedelta(hours=24)  # of an account whose login fails or whose access was revoked


@dataclass(frozen=True)
class Sender:
    id: int
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


class Reservation(Enum):
    """The result of `reserve`."""

    GRANTED = "granted"
    EXHAUSTED = "exhausted"
    ENDED = "ended"  # the execution is not queued any more


def load_senders(connection: Connection, channel: str, now: datetime) -> list[Sender]:
    """All accounts of this channel, with their figures of today."""
    providers = [name for name, channels in CHANNELS_OF.items() if channel in channels]
    query = select(sender_accounts).where(sender_accounts.c.provider.in_(providers)).order_by(sender_accounts.c.id)
    rows = connection.execute(query).all()
    zones = {row.id: BusinessHours.parse(row.zone).zone for row in rows}
    dates = {local_date(now, zone) for zone in zones.values()}
    days = connection.execute(select(sender_days).where(sender_days.c.local_date.in_(dates))).all() if dates else []
    today = {(row.sender_id, row.local_date): row for row in days}
    return [_sender(row, zones[row.id], today.get((row.id, local_date(now, zones[row.id])))) for row in rows]


def _sender(row: Row[Any], zone: ZoneInfo, today: Row[Any] | None) -> Sender:
    """The limit of a day is fixed when its first message is sent: reset_warmup changes that of the next one."""
    names = ("id", "name", "provider", "address", "credential", "health", "cooldown_until")
    limit = row.current_limit if today is None else today.day_limit
    sends = 0 if today is None else today.sends
    return Sender(zone=zone, limit=limit, sends=sends, **{name: getattr(row, name) for name in names})


def in_order(senders: Iterable[Sender], planned_id: int | None, now: datetime) -> list[Sender]:
    """Those that can send now: healthy ones first, then the planned one, then the one with the most quota left."""
    usable = [each for each in senders if each.remaining > 0 and not each.is_cooling(now)]
    return sorted(usable, key=lambda each: (each.health < MIN_HEALTH, each.id != planned_id, -each.remaining))


def next_chance(senders: Sequence[Sender], now: datetime) -> datetime:
    """When the first account can send again: after its cooldown, or on the next day of its zone."""
    return min(
        each.cooldown_until if each.cooldown_until is not None and each.is_cooling(now) else next_day(now, each.zone)
        for each in senders
    )


def next_day(now: datetime, zone: ZoneInfo) -> datetime:
    """When the next day of the zone has begun, also if its midnight is skipped or repeated."""
    midnight = datetime.combine(now.astimezone(zone).date() + timedelta(days=1), time(0), zone)
    return max(midnight.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


# --- quota ------------------------------------------------------------------------------------------------


def reserve(job: Job, message: StepMessage, sender: Sender) -> Reservation:
    """Count the message for this sender and its date of today.

    The execution records what it counts for. So a repeated transaction counts once, and a run that was killed before
    it sent anything leaves nothing behind: the next reservation takes the earlier one back.
    """
    today = local_date(job.now, sender.zone)

    def work(connection: Connection) -> Reservation:
        held = connection.execute(_held(message).with_for_update()).one()
        if held.status != QUEUED:
            return Reservation.ENDED
        if (held.sender_id, held.reserved_on) == (sender.id, today):
            return Reservation.GRANTED
        _take_back(connection, message)
        day = {"sender_id": sender.id, "local_date": today, "day_limit": sender.limit, "sends": 0}
        insert_missing(connection, sender_days, day)
        counted = connection.execute(
            update(sender_days)
            .where(sender_days.c.sender_id == sender.id, sender_days.c.local_date == today)
            .where(sender_days.c.sends < sender_days.c.day_limit)
            .values(sends=sender_days.c.sends + 1)
        )
        if counted.rowcount == 0:
            return Reservation.EXHAUSTED
        connection.execute(update(executions).where(is_of(message)).values(sender_id=sender.id, reserved_on=today))
        return Reservation.GRANTED

    return job.write(work)


def release(job: Job, message: StepMessage) -> None:
    """The message was certainly not sent."""
    job.write(lambda connection: _take_back(connection, message))


def keep_counted(job: Job, message: StepMessage) -> None:
    """The message may have been sent: it stays counted, and sending it again counts once more."""
    change = update(executions).where(is_of(message)).values(reserved_on=None)
    job.write(lambda connection: connection.execute(change))


def is_of(message: StepMessage) -> ColumnElement[bool]:
    return and_(
        executions.c.campaign_id == message.campaign,
        executions.c.step_id == message.step,
        executions.c.contact_id == message.contact,
    )


def _held(message: StepMessage) -> Select[Any]:
    return select(executions.c.status, executions.c.sender_id, executions.c.reserved_on).where(is_of(message))


def _take_back(connection: Connection, message: StepMessage) -> None:
    held = connection.execute(_held(message)).one()
    if held.reserved_on is None:
        return
    day = and_(sender_days.c.sender_id == held.sender_id, sender_days.c.local_date == held.reserved_on)
    connection.execute(update(sender_days).where(day).values(sends=sender_days.c.sends - 1))
    connection.execute(update(executions).where(is_of(message)).values(reserved_on=None))


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


def occupied_board(connection: Connection, board: SlotBoard) -> SlotBoard:
    """Add the messages that are sent today, and those that any campaign has planned for later slots."""
    ids = [each.id for each in board.senders]
    dates = {each.id: local_date(board.begin, each.zone) for each in board.senders}
    query = select(sender_days).where(sender_days.c.sender_id.in_(ids), sender_days.c.local_date.in_(dates.values()))
    for row in connection.execute(query):
        if dates[row.sender_id] == row.local_date:
            board.by_day[row.sender_id, row.local_date] += row.sends
    e = executions.c
    planned = (
        select(e.sender_id, e.slot_at, func.count().label("messages"))
        .where(e.sender_id.in_(ids), e.slot_at >= board.begin, e.status == QUEUED)
        .group_by(e.sender_id, e.slot_at)
    )
    board.occupy({(row.sender_id, row.slot_at): row.messages for row in connection.execute(planned)})
    return board


def slot_senders(senders: Iterable[Sender]) -> list[SlotSender]:
    """Those that may send anything at all."""
    return [SlotSender(each.id, each.zone, each.limit, each.cooldown_until) for each in senders if each.limit > 0]
