"""The warm-up of sender accounts: their daily limit follows a curve, and is lowered after bounces or complaints."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, or_, select, update

from handlers.campaigns.tables import sender_accounts
from mayfly import Job

MAX_BOUNCE_SHARE = 0.05  # of the limit; providers close accounts with more
HEALTH_LOST, HEALTH_GAINED = 20, 5
RESET = update(sender_accounts).where(sender_accounts.c.id == bindparam("of_sender")).values(bounces=0, complaints=0)


class WarmupState(NamedTuple):
    day: int  # position on the curve
    limit: int
    health: int


def next_state(
    now: WarmupState, curve: Sequence[int], daily_limit: int, bounces: int, complaints: int
) -> WarmupState:
    """One step along the curve; after a complaint or too many bounces, back to half of the way. Pure."""
    if complaints or bounces > MAX_BOUNCE_SHARE * now.limit:
        day, health = min(now.day, len(curve)) // 2, max(0, now.health - HEALTH_LOST)
    else:
        day, health = min(now.day + 1, len(curve)), min(100, now.health + HEALTH_GAINED)
    return WarmupState(day, limit_on(day, curve, daily_limit), health)


def limit_on(day: int, curve: Sequence[int], daily_limit: int) -> int:
    """After the end of the curve, the daily limit of the account."""
    return min(curve[day], daily_limit) if day < len(curve) else daily_limit


def reset_all(job: Job) -> dict[str, int]:
    """Once per account and UTC date, however often the job runs."""
    today = job.now.date().isoformat()
    a = sender_accounts.c
    due = select(sender_accounts).where(or_(a.warmed_on.is_(None), a.warmed_on < today)).order_by(a.id)

    def work(connection: Connection) -> int:
        found = connection.execute(due.with_for_update()).all()
        if found:
            connection.execute(RESET, [_next_day(row, today) for row in found])
        return len(found)

    return {"senders": job.write(work)}


def _next_day(row: Row[Any], today: str) -> dict[str, Any]:
    """The parameters of RESET."""
    before = WarmupState(row.warmup_day, row.current_limit, row.health)
    after = next_state(before, row.curve, row.daily_limit, row.bounces, row.complaints)
    values = {"warmup_day": after.day, "current_limit": after.limit, "health": after.health, "warmed_on": today}
    return {"of_sender": row.id, **values}
