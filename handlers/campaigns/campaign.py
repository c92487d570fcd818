"""Campaigns and their steps, and what operators do with a campaign: launch, pause, resume, cancel."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, func, select, update

from handlers.campaigns import tables
from handlers.campaigns.tables import (
    ACTIVE,
    CANCELLED,
    DRAFT,
    EMAIL,
    OPEN_STATUSES,
    PAUSED,
    campaign_lead_groups,
    campaigns,
    executions,
    sender_accounts,
    step_groups,
    steps,
)
from handlers.mail.bulk import UnsubscribeLinks
from handlers.mail.tables import templates
from handlers.payloads import DEFAULT_TENANT
from handlers.scope import Scope
from mayfly import BusinessHours, Cancel, Dead, MayflyError, enqueue, setting

USUAL_LAUNCH_DELAY = "300"  # seconds
MAX_LAUNCH_DELAY = 30 * 86_400
CHANNELS_OF = {"smtp": (EMAIL,), "gmail": (EMAIL,), "twilio": (tables.SMS, tables.VOICEMAIL)}


class UnknownCampaign(MayflyError):
    sentence = "There is no campaign {!r}; `mayfly campaigns list` lists them."


class CampaignRefused(MayflyError):
    def __init__(self, campaign: "Campaign", verb: str, reason: str) -> None:
        super().__init__(f"The campaign {campaign.name} cannot be {verb}: {reason}.")


class BadLaunchDelay(MayflyError):
    sentence = "CAMPAIGN_LAUNCH_DELAY={} must be a number of seconds, 0–2592000."


@dataclass(frozen=True)
class Campaign:
    id: int
    tenant_id: str
    name: str
    status: str
    hours: BusinessHours  # in the campaign's own zone
    slot: timedelta
    per_slot: int
    run: int
    launch_at: datetime | None
    started_at: datetime | None

    @property
    def jobs_group(self) -> str:
        """The group of the jobs that plan."""
        return f"campaign:{self.id}"

    @property
    def messages_group(self) -> str:
        """The group of the jobs that send, in this run."""
        return messages_group(self.id, self.run)

    def hours_for(self, zone: str | None) -> BusinessHours:
        """In the zone of a contact, if it has one."""
        return self.hours if not zone else self.hours.in_zone(zone)


@dataclass(frozen=True)
class CampaignStep:
    id: int
    channel: str
    template_key: str
    days: int  # after the launch
    scheduled_at: datetime | None
    planned_at: datetime | None


def messages_group(campaign_id: int, run: int) -> str:
    return f"campaign:{campaign_id}:messages:{run}"


# --- records ----------------------------------------------------------------------------------------------

CAMPAIGN = select(campaigns).where(campaigns.c.id == bindparam("campaign_id"))
LOCKED_CAMPAIGN = CAMPAIGN.with_for_update()
SAME_COLUMNS = ("id", "tenant_id", "name", "status", "per_slot", "run", "launch_at", "started_at")


def load_campaign(connection: Connection, campaign_id: int, lock: bool = False) -> Campaign:
    """With `lock`, pauses, resumes and other planning jobs of this campaign wait until the transaction ends."""
    query = LOCKED_CAMPAIGN if lock else CAMPAIGN
    return _campaign(connection.execute(query, {"campaign_id": campaign_id}).mappings().first(), campaign_id)


def find_campaign(connection: Connection, tenant_id: str, name: str, lock: bool = False) -> Campaign:
    query = select(campaigns).where(campaigns.c.tenant_id == tenant_id, campaigns.c.name == name)
    return _campaign(connection.execute(query.with_for_update() if lock else query).mappings().first(), name)


def _campaign(row: RowMapping | None, wanted: object) -> Campaign:
    if row is None:
        raise UnknownCampaign(wanted)
    hours = BusinessHours.parse(row["zone"], row["hours"], row["weekdays"], row["holidays"] or ())
    same = {name: row[name] for name in SAME_COLUMNS}
    return Campaign(hours=hours, slot=timedelta(seconds=row["slot_seconds"]), **same)


def load_steps(connection: Connection, campaign_id: int) -> list[CampaignStep]:
    """In the order in which each contact gets them."""
    query = (
        select(step_groups.c.day, steps)
        .join_from(step_groups, steps, steps.c.group_id == step_groups.c.id)
        .where(step_groups.c.campaign_id == campaign_id)
        .order_by(step_groups.c.day, step_groups.c.id, steps.c.position)
    )
    found = list(_with_days(connection.execute(query).mappings().all()))
    return sorted(found, key=lambda step: step.days)  # stable: equal days keep their order


def _with_days(rows: Sequence[RowMapping]) -> Iterator[CampaignStep]:
    """The wait days of a group add up."""
    group_id, waited = None, 0
    for row in rows:
        waited = row["wait_days"] + (waited if row["group_id"] == group_id else 0)
        group_id = row["group_id"]
        same = {name: row[name] for name in ("id", "channel", "template_key", "scheduled_at", "planned_at")}
        yield CampaignStep(days=row["day"] + waited, **same)


# --- actions ----------------------------------------------------------------------------------------------


def launch(scope: Scope, name: str, tenant_id: str = DEFAULT_TENANT) -> datetime:
    """Returns when its contacts are enrolled: until then a launch can be cancelled and nothing has happened."""
    launch_at = scope.now + launch_delay()

    def work(connection: Connection) -> None:
        campaign = _in_status(connection, tenant_id, name, "launched", DRAFT)
        problems = list(_launch_problems(connection, campaign))
        if problems:
            raise CampaignRefused(campaign, "launched", "; ".join(problems))
        _set(connection, campaign, status=ACTIVE, launch_at=launch_at)
        enqueue_start(connection, campaign, launch_at)

    scope.write(work)
    return launch_at


def pause(scope: Scope, name: str, tenant_id: str = DEFAULT_TENANT) -> None:
    """Messages that are not handed over yet are cancelled; `resume` plans them again."""

    def work(connection: Connection) -> None:
        campaign = _in_status(connection, tenant_id, name, "paused", ACTIVE)
        _set(connection, campaign, status=PAUSED)
        _enqueue_cancel(connection, campaign)

    scope.write(work)


def cancel(scope: Scope, name: str, tenant_id: str = DEFAULT_TENANT) -> None:
    """For good: nothing more is sent."""

    def work(connection: Connection) -> None:
        campaign = _in_status(connection, tenant_id, name, "cancelled", DRAFT, ACTIVE, PAUSED)
        _set(connection, campaign, status=CANCELLED, ended_at=scope.now)
        _enqueue_cancel(connection, campaign)

    scope.write(work)


def resume(scope: Scope, name: str, tenant_id: str = DEFAULT_TENANT) -> None:
    """Plan all messages again that were not sent, from now on."""

    def work(connection: Connection) -> None:
        campaign = _in_status(connection, tenant_id, name, "resumed", PAUSED)
        cancel_open(connection, campaign, PAUSED)  # those that cancel_active_step has not reached yet
        _set(connection, campaign, status=ACTIVE, run=campaign.run + 1)
        if campaign.started_at is None:
            enqueue_start(connection, campaign, max(scope.now, campaign.launch_at or scope.now))
            return
        cancelled = select(executions.c.step_id).where(
            executions.c.campaign_id == campaign.id, executions.c.status == CANCELLED
        )
        plan_again(connection, campaign, set(connection.scalars(cancelled.distinct())), scope.now)

    scope.write(work)


def cancel_open(connection: Connection, campaign: Campaign, status: str) -> int:
    """Cancel executions that have not ended; the jobs of those that are queued do nothing when they run."""
    of_campaign = (executions.c.campaign_id == campaign.id) & executions.c.status.in_(OPEN_STATUSES)
    change = update(executions).where(of_campaign).values(status=CANCELLED, reason=f"the campaign is {status}")
    return connection.execute(change).rowcount


def plan_again(connection: Connection, campaign: Campaign, step_ids: set[int], now: datetime) -> int:
    """Enqueue the planning of these steps, and of those that are not planned yet; returns how many."""
    wanted = [
        each
        for each in load_steps(connection, campaign.id)
        if each.scheduled_at is not None and (each.id in step_ids or each.planned_at is None)
    ]
    for step in wanted:
        connection.execute(update(steps).where(steps.c.id == step.id).values(planned_at=None))
        enqueue_planning(connection, campaign, step, max(now, step.scheduled_at or now))
    return len(wanted)


def enqueue_start(connection: Connection, campaign: Campaign, at: datetime) -> None:
    group, payload = campaign.jobs_group, {"campaign": campaign.id}
    enqueue("send_campaign", payload, run_at=at, unique_key=f"{group}:start", group_key=group, connection=connection)


def enqueue_planning(connection: Connection, campaign: Campaign, step: CampaignStep, at: datetime) -> None:
    group, payload = campaign.jobs_group, {"campaign": campaign.id, "step": step.id}
    key = f"{group}:step:{step.id}"
    enqueue("send_campaign_step", payload, run_at=at, unique_key=key, group_key=group, connection=connection)


def launch_delay() -> timedelta:
    text = setting("CAMPAIGN_LAUNCH_DELAY", USUAL_LAUNCH_DELAY)
    if not (text.isascii() and text.isdigit() and int(text) <= MAX_LAUNCH_DELAY):
        raise BadLaunchDelay(text)
    return timedelta(seconds=int(text))


def _in_status(connection: Connection, tenant_id: str, name: str, verb: str, *allowed: str) -> Campaign:
    campaign = find_campaign(connection, tenant_id, name, lock=True)
    if campaign.status not in allowed:
        raise CampaignRefused(campaign, verb, f"it is {campaign.status}, not {' or '.join(allowed)}")
    return campaign


def _set(connection: Connection, campaign: Campaign, **values: Any) -> None:
    connection.execute(update(campaigns).where(campaigns.c.id == campaign.id).values(**values))


def _enqueue_cancel(connection: Connection, campaign: Campaign) -> None:
    payload = {"campaign": campaign.id, "run": campaign.run}
    enqueue("cancel_active_step", payload, priority=0, connection=connection)


def _launch_problems(connection: Connection, campaign: Campaign) -> Iterator[str]:
    found = load_steps(connection, campaign.id)
    if not found:
        yield "it has no steps; add rows to app_campaign_step_groups and app_campaign_steps"
    groups = select(func.count()).where(campaign_lead_groups.c.campaign_id == campaign.id)
    if not connection.scalar(groups):
        yield "it has no lead groups; add rows to app_campaign_lead_groups"
    tenant_id, wanted = campaign.tenant_id, {step.template_key for step in found}
    t, a = templates.c, sender_accounts.c
    stored = select(t.template_key).where(t.tenant_id == tenant_id, t.template_key.in_(wanted))
    for key in sorted(wanted - set(connection.scalars(stored))):
        yield f"there is no template {key!r} in app_templates"
    providers = connection.scalars(select(a.provider).where(a.tenant_id == tenant_id).distinct())
    served = {channel for provider in providers for channel in CHANNELS_OF[provider]}
    for channel in sorted({step.channel for step in found} - served):
        yield f"no row of app_sender_accounts can send {channel}"
    if any(step.channel == EMAIL for step in found):
        yield from _link_problems()


def _link_problems() -> Iterator[str]:
    try:
        UnsubscribeLinks()
    except (Cancel, Dead) as error:
        yield str(error)
