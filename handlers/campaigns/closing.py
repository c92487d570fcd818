"""End campaigns whose executions have ended, and record the figures of each campaign as metrics."""

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, exists, func, insert, select, update

from handlers.campaigns.campaign import Campaign, cancel_open, load_campaign, load_steps, messages_group
from handlers.campaigns.payloads import CancelledRun, StepMessage
from handlers.campaigns.senders import UPDATE_MESSAGE, key_of
from handlers.campaigns.tables import (
    ACTIVE,
    CANCELLED,
    COMPLETED,
    FAILED,
    MAX_REASON_LENGTH,
    OPEN_STATUSES,
    PAUSED,
    QUEUED,
    SKIPPED,
    campaigns,
    enrolments,
    executions,
    jobs,
)
from handlers.maintenance.tables import metric_points
from mayfly import Job, cancel

OVERDUE = timedelta(hours=1)  # then the job of a queued execution may have ended without its handler
PAGE_SIZE = 1000


def cancel_run(job: Job, cancelled: CancelledRun) -> dict[str, int]:
    """Cancel the pending messages of a paused or cancelled campaign, and their jobs by their group."""

    def work(connection: Connection) -> int:
        campaign = load_campaign(connection, cancelled.campaign, lock=True)
        is_current = campaign.run == cancelled.run and campaign.status in (PAUSED, CANCELLED)
        return cancel_open(connection, campaign, campaign.status) if is_current else 0

    messages = job.write(work)
    ended = cancel(group_key=messages_group(cancelled.campaign, cancelled.run), reason="the campaign was paused")
    return {"messages": messages, "jobs": ended.ended, "running": ended.requested}


def close_all(job: Job) -> dict[str, int]:
    """Returns how many campaigns are active, and how many were completed."""
    active = job.read(lambda c: list(c.scalars(select(campaigns.c.id).where(campaigns.c.status == ACTIVE))))
    closed = [each for each in active if _close(job, each)]
    return {"active": len(active) - len(closed), "completed": len(closed)}


def _close(job: Job, campaign_id: int) -> bool:
    now = job.now
    job.write(lambda connection: _settle_lost(connection, campaign_id, now))

    def work(connection: Connection) -> bool:
        campaign = load_campaign(connection, campaign_id, lock=True)
        figures = figures_of(connection, campaign.id)
        is_over = campaign.status == ACTIVE and _has_ended(connection, campaign, figures)
        values: dict[str, Any] = {"status": COMPLETED, "ended_at": now} if is_over else {}
        change = update(campaigns).where(campaigns.c.id == campaign.id)
        connection.execute(change.values(figures=figures, **values))
        return is_over

    is_over = job.write(work)
    job.write(lambda connection: _record_metrics(connection, campaign_id, now))
    return is_over


def _has_ended(connection: Connection, campaign: Campaign, figures: dict[str, int]) -> bool:
    """All steps are planned, and all their messages have ended."""
    is_planned = campaign.started_at is not None and all(
        each.planned_at is not None for each in load_steps(connection, campaign.id)
    )
    return is_planned and not any(figures.get(status, 0) for status in OPEN_STATUSES)


def figures_of(connection: Connection, campaign_id: int) -> dict[str, int]:
    """The enrolled contacts, those that were stopped by reason, and the executions by status."""
    n, e, x = enrolments.c, executions.c, func.count()
    stopped = select(n.stop_reason, x).where(n.campaign_id == campaign_id).group_by(n.stop_reason)
    found = Counter({reason or "": number for reason, number in connection.execute(stopped)})
    by_status = select(e.status, x).where(e.campaign_id == campaign_id).group_by(e.status)
    reasons = {reason: number for reason, number in found.items() if reason}
    return {"contacts": found.total(), **reasons, **{row[0]: row[1] for row in connection.execute(by_status)}}


def _record_metrics(connection: Connection, campaign_id: int, now: datetime) -> None:
    """One point per figure, once per run of the job: metric_rollup adds them up."""
    names = {f"campaign.{campaign_id}.{name.lower()}": n for name, n in figures_of(connection, campaign_id).items()}
    m = metric_points.c
    done = select(exists().where(m.measured_at == now, m.name.in_(names)))
    if names and not connection.scalar(done):
        rows = [{"name": name, "measured_at": now, "value": n, "counted": 0} for name, n in names.items()]
        connection.execute(insert(metric_points), rows)


# --- executions whose job has ended without its handler ---------------------------------------------------


def _settle_lost(connection: Connection, campaign_id: int, now: datetime) -> None:
    """A job may be dead after crashes, or cancelled by hand: its execution has failed, or is skipped."""
    e = executions.c
    overdue = and_(e.campaign_id == campaign_id, e.status == QUEUED, e.scheduled_at < now - OVERDUE)
    if connection.execute(select(e.contact_id).where(overdue).limit(1)).first() is None:
        return
    group = messages_group(campaign_id, load_campaign(connection, campaign_id).run)
    j, after = jobs.c, 0
    while found := connection.execute(
        select(jobs)
        .where(j.group_key == group, j.status.in_(("dead", "cancelled")), j.id > after)
        .order_by(j.id)
        .limit(PAGE_SIZE)
    ).all():
        after = found[-1].id
        for row in found:
            _end_lost(connection, row)


def _end_lost(connection: Connection, row: Any) -> None:
    message = StepMessage.model_validate(json.loads(row.payload))
    status, reason = (FAILED, row.last_error) if row.status == "dead" else (SKIPPED, "its job was cancelled")
    values = {"status": status, "reason": " ".join((reason or "").split())[:MAX_REASON_LENGTH]}
    connection.execute(UPDATE_MESSAGE.where(executions.c.status == QUEUED), {**key_of(message), **values})
