"""The figures per tenant, campaign, sender and day, computed from the deliveries that were sent on that day.

An event counts on the day its email was sent: a late bounce corrects an earlier day, and no rate exceeds 1. Changed
deliveries first make their day stale; then each stale day is computed again as a whole. So a repeated step counts
nothing twice.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select, update

from handlers.mailroom.payloads import DailyRange
from handlers.mailroom.tables import HARD, SOFT, daily_figures, days, deliveries
from handlers.upsert import upsert
from mayfly import Dead, Job, setting

ROWS_PER_COMMIT = 1000
KEPT_SETTING, USUALLY_KEPT_DAYS = "APP_KEEP_DELIVERIES_DAYS", "365"
DAY = timedelta(days=1)
# What counts of the emails that were sent on a day.
COUNTED: dict[str, ColumnElement[bool]] = {
    "delivered": deliveries.c.delivered_at.is_not(None),
    "bounced": deliveries.c.bounce_type == HARD,
    "soft_bounced": deliveries.c.bounce_type == SOFT,
    "replied": deliveries.c.replied_at.is_not(None),
    "complained": deliveries.c.complained_at.is_not(None),
}
RATES = {"delivery": "delivered", "bounce": "bounced", "reply": "replied", "complaint": "complained"}


class TenantDay(NamedTuple):
    """A day of UTC, as in the column: 2026-05-04."""

    day: str
    tenant_id: str


def aggregate(job: Job, wanted: DailyRange) -> dict[str, int]:
    """Compute the days whose deliveries have changed, and those of the range if there is one."""
    done = {"changed": 0, "marked": 0, "computed": 0, **(job.state or {})}
    first = first_complete_day(job.now)

    def repeat(name: str, step: Callable[[Connection], int]) -> None:
        while count := job.write(step):
            done[name] += count
            job.progress(done[name], text=name)
            job.checkpoint(done)

    repeat("changed", lambda connection: mark_changed_days(connection, first))
    if wanted.days is not None and not done["marked"]:
        for day in days_between(max(wanted.days[0], first), wanted.days[1]):
            done["marked"] += job.write(lambda connection: mark_day(connection, day, wanted.tenant_id))  # noqa: B023
        job.checkpoint(done)
    repeat("computed", lambda connection: compute_stale_day(connection, job.now))
    return done


def first_complete_day(now: datetime) -> date:
    """Deliveries of earlier days may be deleted: their figures are final."""
    kept = setting(KEPT_SETTING, USUALLY_KEPT_DAYS)
    if not (kept.isascii() and kept.isdigit() and len(kept) <= 5):
        raise Dead(f"{KEPT_SETTING} must be a number of days")
    return now.date() - timedelta(days=int(kept))


def days_between(first: date, last: date) -> Iterator[date]:
    """Both included."""
    for number in range((last - first).days + 1):
        yield first + number * DAY


# --- stale days -------------------------------------------------------------------------------------------


def mark_changed_days(connection: Connection, first: date) -> int:
    """Mark the days of the next changed deliveries in one transaction; return the number of deliveries.

    A delivery that is locked is changing again, or another host marks its day.
    """
    d = deliveries.c
    changed = (
        select(d.id, d.tenant_id, d.sent_at)
        .where(d.counted == 0)
        .order_by(d.id)
        .limit(ROWS_PER_COMMIT)
        .with_for_update(skip_locked=True)
    )
    rows = connection.execute(changed).all()
    found = {TenantDay(f"{row.sent_at:%Y-%m-%d}", row.tenant_id) for row in rows if row.sent_at is not None}
    for each in sorted(found):
        if each.day >= first.isoformat():
            upsert(connection, days, {**each._asdict(), "is_stale": 1})
    if rows:
        connection.execute(update(deliveries).where(d.id.in_([row.id for row in rows])).values(counted=1))
    return len(rows)


def mark_day(connection: Connection, day: date, tenant_id: str | None) -> int:
    """Each day with counted deliveries has a row; return the number of tenants."""
    is_wanted = [days.c.day == day.isoformat()] + ([] if tenant_id is None else [days.c.tenant_id == tenant_id])
    return connection.execute(update(days).where(*is_wanted).values(is_stale=1)).rowcount


# --- figures ----------------------------------------------------------------------------------------------


def compute_stale_day(connection: Connection, now: datetime) -> int:
    """Compute one stale day; return 0 if there is none.

    The row of the day is locked until the new figures are committed: of two hosts, none writes older figures last.
    Deliveries that change meanwhile make the day stale again.
    """
    stale = select(days.c.day, days.c.tenant_id).where(days.c.is_stale == 1).order_by(days.c.day, days.c.tenant_id)
    found = connection.execute(stale.limit(1)).first()
    if found is None:
        return 0
    day = TenantDay._make(found)
    is_day = [days.c.day == day.day, days.c.tenant_id == day.tenant_id]
    taken = connection.execute(update(days).where(*is_day, days.c.is_stale == 1).values(is_stale=0))
    if taken.rowcount:
        _replace(connection, day, now)
    return 1


def _replace(connection: Connection, day: TenantDay, now: datetime) -> None:
    f, figures = daily_figures.c, _figures(connection, day)
    connection.execute(delete(daily_figures).where(f.tenant_id == day.tenant_id, f.day == day.day))
    if figures:
        connection.execute(insert(daily_figures), [{**each, "computed_at": now} for each in figures])


def _figures(connection: Connection, day: TenantDay) -> list[dict[str, object]]:
    d, begin = deliveries.c, datetime.combine(date.fromisoformat(day.day), time(0), UTC)
    counts = [func.count(case((condition, 1))).label(name) for name, condition in COUNTED.items()]
    query = (
        select(d.campaign_id, d.sender, func.count().label("sent"), *counts)
        .where(d.tenant_id == day.tenant_id, d.sent_at >= begin, d.sent_at < begin + DAY)
        .group_by(d.campaign_id, d.sender)
    )
    rows = [dict(row) for row in connection.execute(query).mappings()]
    return [{**day._asdict(), **row, "campaign_id": row["campaign_id"] or 0, **rates_of(row)} for row in rows]


def rates_of(counts: dict[str, int]) -> dict[str, float]:
    """Of the sent emails, of which there is at least one. Pure."""
    return {f"{name}_rate": counts[counted] / counts["sent"] for name, counted in RATES.items()}
