"""How long the records of other areas are kept: one setting per table. Records that are still needed stay."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Table, and_, exists, literal, or_, select

from handlers.ai.ledger import calls
from handlers.ai.tables import nudges, suggestions
from handlers.campaigns.tables import campaigns, enrolments, executions, sender_days
from handlers.cooldown import cooldowns
from handlers.idempotency import DONE, OPEN, effects
from handlers.mail.tables import templates
from handlers.mailroom.daily_figures import KEPT_SETTING, USUALLY_KEPT_DAYS
from handlers.mailroom.tables import (
    RECEIVED,
    days,
    deliveries,
    provider_events,
    warmup_mails,
    warmup_steps,
    webhook_deliveries,
)
from handlers.maintenance.purge import purge_where
from handlers.outreach.tables import TEMPLATE_PREFIX, blast_mails, blasts
from handlers.payloads import DEFAULT_TENANT
from handlers.prospects.answer_cache import USUAL_DAYS
from handlers.prospects.tables import cached_answers
from mayfly import Dead, Job, setting

MAX_DAYS = 36_500


class Retention(NamedTuple):
    """Rows of the table that are older than the setting, in days, and that `is_old` selects."""

    table: Table
    setting: str
    usual_days: str
    is_old: Callable[[datetime], ColumnElement[bool]]
    order: tuple[ColumnElement[object], ...] = ()


def _blast_has_ended(before: datetime) -> ColumnElement[bool]:
    return and_(blasts.c.state == "sent", blasts.c.finished_at < before)


def _template_is_old(before: datetime) -> ColumnElement[bool]:
    """Templates of blasts only: the others are the application's."""
    own = templates.c.template_key == literal(TEMPLATE_PREFIX) + blasts.c.blast
    lasts = select(blasts.c.job_id).where(own, or_(blasts.c.state != "sent", blasts.c.finished_at >= before))
    t = templates.c
    is_of_blast = and_(t.tenant_id == DEFAULT_TENANT, t.template_key.startswith(TEMPLATE_PREFIX, autoescape=True))
    return and_(is_of_blast, t.created_at < before, ~lasts.exists())


def _campaign_has_ended(campaign_id: ColumnElement[int], before: datetime) -> ColumnElement[bool]:
    return campaign_id.in_(select(campaigns.c.id).where(campaigns.c.ended_at < before))


def _delivery_is_old(before: datetime) -> ColumnElement[bool]:
    """Whole days of UTC, so that the figures of the other days can be computed again."""
    d, midnight = deliveries.c, before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return and_(d.created_at < midnight, or_(d.sent_at.is_(None), d.sent_at < midnight))


def _step_is_old(before: datetime) -> ColumnElement[bool]:
    """The last step of each account and type stays: later ones continue its number."""
    s, later = warmup_steps.c, warmup_steps.alias("later").c
    is_same = and_(later.email_account_id == s.email_account_id, later.warmup_type == s.warmup_type)
    return and_(s.created_at < before, exists().where(is_same, later.sequence_step > s.sequence_step))


RETENTIONS = (
    # An effect in doubt stays: without its row, a retry would repeat it.
    Retention(
        effects,
        "APP_KEEP_IDEMPOTENCY_DAYS",
        "90",
        lambda before: and_(effects.c.state.in_((OPEN, DONE)), effects.c.changed_at < before),
        (effects.c.state, effects.c.changed_at),
    ),
    Retention(
        cached_answers,
        "ENRICH_CACHE_DAYS",
        USUAL_DAYS,
        lambda before: cached_answers.c.answered_at < before,
        (cached_answers.c.answered_at,),
    ),
    # By the end of their job: they have no time of their own.
    Retention(
        blast_mails,
        "APP_KEEP_BLAST_MAILS_DAYS",
        "365",
        lambda before: blast_mails.c.job_id.in_(select(blasts.c.job_id).where(_blast_has_ended(before))),
    ),
    Retention(templates, "APP_KEEP_TEMPLATES_DAYS", "365", _template_is_old),
    Retention(calls, "APP_KEEP_LLM_CALLS_DAYS", "90", lambda before: calls.c.asked_at < before, (calls.c.asked_at,)),
    Retention(nudges, "APP_KEEP_NUDGES_DAYS", "90", lambda before: nudges.c.changed_at < before),
    Retention(suggestions, "APP_KEEP_SUGGESTIONS_DAYS", "90", lambda before: suggestions.c.written_at < before),
    Retention(
        executions,
        "APP_KEEP_EXECUTIONS_DAYS",
        "365",
        lambda before: _campaign_has_ended(executions.c.campaign_id, before),
    ),
    Retention(
        enrolments,
        "APP_KEEP_ENROLMENTS_DAYS",
        "365",
        lambda before: _campaign_has_ended(enrolments.c.campaign_id, before),
    ),
    Retention(
        sender_days, "APP_KEEP_SENDS_DAYS", "365", lambda before: sender_days.c.local_date < before.date().isoformat()
    ),
    Retention(deliveries, KEPT_SETTING, USUALLY_KEPT_DAYS, _delivery_is_old),
    # Their figures are final: see first_complete_day.
    Retention(
        days,
        KEPT_SETTING,
        USUALLY_KEPT_DAYS,
        lambda before: and_(days.c.is_stale == 0, days.c.day < before.date().isoformat()),
    ),
    # An event that was not processed stays: its job can be retried.
    Retention(
        provider_events,
        "APP_KEEP_MAIL_EVENTS_DAYS",
        "90",
        lambda before: and_(provider_events.c.status != RECEIVED, provider_events.c.received_at < before),
        (provider_events.c.received_at,),
    ),
    Retention(
        webhook_deliveries,
        "APP_KEEP_WEBHOOKS_DAYS",
        "90",
        lambda before: webhook_deliveries.c.created_at < before,
        (webhook_deliveries.c.created_at,),
    ),
    Retention(warmup_mails, "APP_KEEP_WARMUP_MAILS_DAYS", "90", lambda before: warmup_mails.c.created_at < before),
    Retention(warmup_steps, "APP_KEEP_WARMUP_MAILS_DAYS", "90", _step_is_old),
    Retention(cooldowns, "APP_KEEP_COOLDOWNS_DAYS", "7", lambda before: cooldowns.c.until_at < before),
)


def prune(job: Job) -> dict[str, int]:
    """Return the number of deleted rows per table."""
    ages = {each.table.name: _age(each) for each in RETENTIONS}  # all are checked before the first row is deleted
    return {
        each.table.name: purge_where(job, each.table, each.is_old(job.now - ages[each.table.name]), *each.order)
        for each in RETENTIONS
    }


def _age(retention: Retention) -> timedelta:
    days = setting(retention.setting, retention.usual_days)
    if not (days.isascii() and days.isdigit() and len(days) <= 5 and 1 <= int(days) <= MAX_DAYS):
        raise Dead(f"{retention.setting} must be a number of days, 1–{MAX_DAYS:,}")
    return timedelta(days=int(days))
