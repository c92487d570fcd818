"""The daily plan of warm-ups: how many emails each account sends today, to which accounts, and when."""

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, insert, or_, select, update

from handlers.mailroom.tables import accounts, warmup_steps, warmups
from mayfly import BusinessHours, Job, enqueue

OUTBOUND, INBOUND, ENGAGEMENT = "outbound", "inbound", "engagement"
# Spam is moved before other emails are answered; sending can wait.
PRIORITIES = {INBOUND: 0, ENGAGEMENT: 1, OUTBOUND: 2}
CHECKS_PER_DAY = 4  # of the mailbox
ENGAGES_AFTER = timedelta(minutes=20)  # after each check
BEGIN, END = time(8), time(18)  # in the zone of the account


class PlannedWarmup(NamedTuple):
    warmup_type: str
    run_at: datetime


def mails_on(day: int, start: int, increase: int, most: int) -> int:
    """On the day with this number, from 0. Pure."""
    return max(0, min(most, start + increase * max(0, day)))


def plan_day(mails: int, begin: datetime, end: datetime, seed: str) -> Iterator[PlannedWarmup]:
    """Emails at random instants, one in each part of the day; checks of the mailbox in between. Pure."""
    for number in range(mails):
        share = (number + chance(f"{seed}:{number}")) / mails
        yield PlannedWarmup(OUTBOUND, begin + share * (end - begin))
    for number in range(CHECKS_PER_DAY):
        at = begin + (number + 1) / CHECKS_PER_DAY * (end - begin)
        yield PlannedWarmup(INBOUND, at)
        yield PlannedWarmup(ENGAGEMENT, at + ENGAGES_AFTER)


def chance(text: str) -> float:
    """From 0 to 1, the same for the same text, so that a repeated run decides the same."""
    return int.from_bytes(sha256(text.encode()).digest()[:6]) / (1 << 48)


def partner_of(account_id: int, step: int, others: Sequence[int]) -> int:
    """All of them in turn; accounts do not all write to the same one. Pure."""
    return others[(step + account_id) % len(others)]


def plan_all(job: Job) -> dict[str, int]:
    """Once per account and day of its zone, however often the job runs."""
    w = warmups.c
    query = (
        select(warmups)
        .join_from(warmups, accounts, accounts.c.id == w.email_account_id)
        .where(w.is_active == 1, accounts.c.is_active == 1)
        .order_by(w.email_account_id)
    )
    steps = 0
    for row in job.read(lambda connection: connection.execute(query).all()):
        today = job.now.astimezone(BusinessHours.parse(row.zone).zone).date().isoformat()
        if row.planned_on is None or row.planned_on < today:
            steps += job.write(lambda connection: _plan_account(connection, row, job.now))  # noqa: B023
    return {"steps": steps}


def _plan_account(connection: Connection, row: Row[Any], now: datetime) -> int:
    """The steps, their jobs and the date are one transaction."""
    zone = BusinessHours.parse(row.zone).zone
    today = now.astimezone(zone).date()
    w = warmups.c
    is_due = or_(w.planned_on.is_(None), w.planned_on < today.isoformat())
    taken = update(warmups).where(w.email_account_id == row.email_account_id, is_due)
    if not connection.execute(taken.values(planned_on=today.isoformat())).rowcount:
        return 0
    day = (today - row.started_at.astimezone(zone).date()).days
    begin = max(now, datetime.combine(today, BEGIN, zone))
    end = max(begin + timedelta(hours=1), datetime.combine(today, END, zone))
    mails = mails_on(day, row.start_per_day, row.increase_per_day, row.max_per_day)
    numbers = _last_steps(connection, row.email_account_id)
    planned = list(plan_day(mails, begin, end, f"{row.email_account_id}:{today}"))
    for each in planned:
        numbers[each.warmup_type] += 1
        _insert_step(connection, row, each, numbers[each.warmup_type], now)
    return len(planned)


def _last_steps(connection: Connection, account_id: int) -> dict[str, int]:
    s = warmup_steps.c
    last = select(s.warmup_type, func.max(s.sequence_step)).where(s.email_account_id == account_id)
    found = {row[0]: row[1] for row in connection.execute(last.group_by(s.warmup_type))}
    return {each: found.get(each, 0) for each in PRIORITIES}


def _insert_step(connection: Connection, row: Row[Any], step: PlannedWarmup, number: int, now: datetime) -> None:
    account_id, kind = row.email_account_id, step.warmup_type
    key = {"email_account_id": account_id, "warmup_type": kind, "sequence_step": number}
    connection.execute(insert(warmup_steps).values(tenant_id=row.tenant_id, created_at=now, **key))
    unique = f"warmup:{account_id}:{kind}:{number}"
    enqueue(
        "process_warmup", key, run_at=step.run_at, priority=PRIORITIES[kind], unique_key=unique, connection=connection
    )
