"""Stage 2: plan the messages of a step: one execution per contact, and its job, in business hours."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from itertools import pairwise
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, Select, Update, and_, bindparam, insert, or_, select, update

from handlers.campaigns.campaign import (
    Campaign,
    CampaignStep,
    enqueue_start,
    load_campaign,
    load_steps,
    plan_again,
)
from handlers.campaigns.enrolment import active_campaign, canonical_number
from handlers.campaigns.senders import open_board
from handlers.campaigns.slots import SlotBoard
from handlers.campaigns.tables import (
    ACTIVE,
    CANCELLED,
    EMAIL,
    ENDED_STATUSES,
    PLANNED,
    QUEUED,
    SKIPPED,
    campaigns,
    contacts,
    enrolments,
    executions,
    steps,
)
from handlers.mail.payloads import is_address
from handlers.mail.tables import templates
from handlers.mail.templates import find_template
from handlers.upsert import insert_missing
from mayfly import BusinessHours, Cancel, Dead, Job, MayflyError, Snooze, enqueue_many

PAGE_SIZE = 1000  # contacts; takes less than a second
TEXTS_PREFIX = "campaign:"  # of the keys of texts as they were when a step was planned
NO_SENDER_WAIT = timedelta(hours=1)
MESSAGE_TYPES = {"email": "send_step_email", "sms": "send_step_sms", "voicemail": "send_step_voicemail"}

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class PlanProgress:
    """The checkpoint."""

    run: int = 0  # of the campaign
    after: int = 0  # id of the last contact
    queued: int = 0
    waiting: int = 0  # until the previous step of the contact has ended
    skipped: int = 0


@dataclass(frozen=True)
class PlannedStep:
    """A step with what its messages have in common."""

    campaign: Campaign
    step: CampaignStep
    previous: CampaignStep | None
    texts_key: str
    now: datetime

    @property
    def gap(self) -> timedelta:
        """Between the previous message to a contact and this one."""
        return timedelta(days=self.step.days - (self.previous.days if self.previous else 0))


def plan_step(job: Job, campaign_id: int, step_id: int) -> dict[str, int]:
    planned = job.write(lambda connection: _begin(connection, campaign_id, step_id, job.now))
    board = job.read(lambda connection: _open_board(connection, planned))
    state = PlanProgress(**(job.state or {}))
    while True:
        before = state
        # A transaction that is repeated after a deadlock uses the board once more: some slots stay less full.
        state = job.write(lambda connection: _plan_page(connection, planned, board, before))  # noqa: B023
        if state == before:
            break
        job.progress(state.queued + state.waiting + state.skipped, text="contacts")
        job.checkpoint(asdict(state))
    with job.transaction() as connection:
        active_campaign(connection, campaign_id)
        connection.execute(update(steps).where(steps.c.id == step_id).values(planned_at=job.now))
    return {name: figure for name, figure in asdict(state).items() if name not in ("run", "after")}


def _begin(connection: Connection, campaign_id: int, step_id: int, now: datetime) -> PlannedStep:
    """Stores the texts: a template that is edited later changes no planned message."""
    campaign = active_campaign(connection, campaign_id)
    in_order = load_steps(connection, campaign.id)
    position = next((index for index, each in enumerate(in_order) if each.id == step_id), None)
    if position is None:
        raise Cancel(f"the campaign {campaign.name} has no step {step_id} any more")
    step, previous = in_order[position], in_order[position - 1] if position else None
    texts_key = _store_texts(connection, campaign.tenant_id, step.template_key, now)
    return PlannedStep(campaign, step, previous, texts_key, now)


def _store_texts(connection: Connection, tenant_id: str, template_key: str, now: datetime) -> str:
    found = connection.execute(find_template(tenant_id, template_key)).first()
    if found is None:
        raise Dead(f"there is no template {template_key!r} in app_templates")
    subject, text, html = found
    key = f"{TEXTS_PREFIX}{sha256(repr((subject, text, html)).encode()).hexdigest()}"
    texts = {"subject": subject, "text_body": text, "html_body": html, "created_at": now}
    insert_missing(connection, templates, {"tenant_id": tenant_id, "template_key": key, **texts})
    return key


def _open_board(connection: Connection, planned: PlannedStep) -> SlotBoard:
    board = open_board(connection, planned.campaign, planned.step.channel, planned.now)
    if board is None:
        reason = f"no row of app_sender_accounts with a limit above 0 can send {planned.step.channel}"
        raise Snooze(after=NO_SENDER_WAIT, reason=reason)
    return board


def _plan_page(connection: Connection, planned: PlannedStep, board: SlotBoard, state: PlanProgress) -> PlanProgress:
    """Executions and jobs commit together. Returns the same state when no contact is left.

    The lock of the campaign admits one transaction at a time, so that what is selected as missing is missing.
    """
    campaign = active_campaign(connection, planned.campaign.id)
    planned = replace(planned, campaign=campaign)
    if campaign.run != state.run:  # it was paused and resumed meanwhile, or this is the first page
        state = PlanProgress(campaign.run)
    found = connection.execute(candidates(planned, state.after)).all()
    if not found:
        return state
    rows = [_execution(planned, board, each) for each in found]
    _store(connection, rows, {each.id for each in found if each.status is not None})
    queued = [row for row in rows if row["status"] == QUEUED]
    enqueue_many(_jobs(planned, queued), connection=connection)
    waiting = sum(row["status"] == PLANNED for row in rows)
    skipped = len(rows) - len(queued) - waiting
    return PlanProgress(
        state.run, found[-1].id, state.queued + len(queued), state.waiting + waiting, state.skipped + skipped
    )  # fmt: skip


def candidates(planned: PlannedStep, after: int) -> Select[Any]:
    """Enrolled contacts that have no execution of this step, or one that is to be planned again."""
    own, earlier, e, c = executions.alias("own"), executions.alias("earlier"), enrolments.c, contacts.c
    previous_id = planned.previous.id if planned.previous else 0
    joined = (
        enrolments.join(contacts, c.id == e.contact_id)
        .outerjoin(own, _is(own, planned.step.id))
        .outerjoin(earlier, _is(earlier, previous_id))
    )
    return (
        select(c.id, c.email, c.phone, c.zone, own.c.status, earlier.c.status.label("earlier"), earlier.c.sent_at)
        .select_from(joined)
        .where(e.campaign_id == planned.campaign.id, e.contact_id > after)
        .where(e.stopped_at.is_(None), c.replied_at.is_(None))
        .where(or_(own.c.status.is_(None), own.c.status.in_((PLANNED, CANCELLED))))
        .order_by(e.contact_id)
        .limit(PAGE_SIZE)
    )


def _is(alias: Any, step_id: int) -> Any:
    e = enrolments.c
    return and_(
        alias.c.campaign_id == e.campaign_id, alias.c.step_id == step_id, alias.c.contact_id == e.contact_id
    )  # fmt: skip


def _execution(planned: PlannedStep, board: SlotBoard, contact: Row[Any]) -> dict[str, Any]:
    row = {
        "tenant_id": planned.campaign.tenant_id, "campaign_id": planned.campaign.id, "step_id": planned.step.id,
        "contact_id": contact.id, "reason": None, "template_key": planned.texts_key, "scheduled_at": None,
        "slot_at": None, "sender_id": None,
    }  # fmt: skip
    if (reason := unreachable(planned.step.channel, contact)) is not None:
        return {**row, "status": SKIPPED, "reason": reason}
    if planned.previous is not None and contact.earlier not in ENDED_STATUSES:
        return {**row, "status": PLANNED, "reason": "waits for the previous step"}
    earliest = planned.now if contact.sent_at is None else contact.sent_at + planned.gap
    key = f"{planned.step.id}:{contact.id}"
    slot_at, at, sender_id = board.assign(contact.zone, earliest, key)
    return {**row, "status": QUEUED, "scheduled_at": at, "slot_at": slot_at, "sender_id": sender_id}


def unreachable(channel: str, contact: Any) -> str | None:
    """Why this contact cannot get a message by this channel."""
    if contact.zone and not _is_zone(contact.zone):
        return f"the contact has the unknown zone {contact.zone!r}"
    if channel == EMAIL:
        return None if contact.email and is_address(contact.email) else "the contact has no valid email address"
    return None if canonical_number(contact.phone) else "the contact has no phone number"


@lru_cache(1000)
def _is_zone(name: str) -> bool:
    try:
        BusinessHours.parse(name)
    except MayflyError:
        return False
    return True


def _store(connection: Connection, rows: Rows, existing: set[int]) -> None:
    new = [row for row in rows if row["contact_id"] not in existing]
    if new:
        connection.execute(insert(executions), new)
    if again := [row for row in rows if row["contact_id"] in existing]:
        keys = ("campaign_id", "step_id", "contact_id")
        change = update(executions).where(*(executions.c[name] == bindparam(f"its_{name}") for name in keys))
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in again[0] if name not in keys}
        named = [{f"its_{n}" if n in keys else f"new_{n}": value for n, value in row.items()} for row in again]
        connection.execute(change.values(values), named)


def _jobs(planned: PlannedStep, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    same = {"type": MESSAGE_TYPES[planned.step.channel], "group_key": planned.campaign.messages_group}
    for row in rows:
        payload = {"campaign": row["campaign_id"], "step": row["step_id"], "contact": row["contact_id"]}
        yield {**same, "payload": payload, "run_at": row["scheduled_at"]}


# --- follow-ups -------------------------------------------------------------------------------------------


def enqueue_followups(job: Job) -> dict[str, int]:
    """Plan contacts again whose previous step has ended since, and skip those that were stopped.

    Also enqueues planning jobs that are missing, because they are dead or were cancelled by hand.
    """
    active = job.read(lambda c: list(c.scalars(select(campaigns.c.id).where(campaigns.c.status == ACTIVE))))
    return {"steps": sum(job.write(lambda c: _follow_up(c, each, job.now)) for each in active)}  # noqa: B023


def _follow_up(connection: Connection, campaign_id: int, now: datetime) -> int:
    campaign = load_campaign(connection, campaign_id, lock=True)
    if campaign.status != ACTIVE:
        return 0
    if campaign.started_at is None:
        enqueue_start(connection, campaign, max(now, campaign.launch_at or now))
        return 0
    connection.execute(SKIP_STOPPED, {"of_campaign": campaign.id})
    in_order = load_steps(connection, campaign.id)
    due = {
        step.id
        for previous, step in pairwise(in_order)
        if step.planned_at is not None and _has_followups(connection, campaign, previous, step)
    }
    plan_again(connection, campaign, due, now)
    return len(due)


def _followups() -> Select[Any]:
    """One contact whose execution of a step is PLANNED and whose previous step has ended."""
    own, earlier = executions.alias("own"), executions.alias("earlier")
    same = and_(earlier.c.campaign_id == own.c.campaign_id, earlier.c.contact_id == own.c.contact_id)
    return (
        select(own.c.contact_id)
        .join_from(own, earlier, same)
        .where(own.c.campaign_id == OF_CAMPAIGN, own.c.step_id == bindparam("of_step"), own.c.status == PLANNED)
        .where(earlier.c.step_id == bindparam("of_previous"), earlier.c.status.in_(ENDED_STATUSES))
        .limit(1)
    )


def _skip_stopped() -> Update:
    """Executions that wait for a step which will not be sent."""
    n, e = enrolments.c, executions.c
    replied = select(contacts.c.id).where(contacts.c.replied_at.is_not(None), contacts.c.id == n.contact_id)
    is_stopped = or_(n.stopped_at.is_not(None), replied.exists())
    stopped = select(n.contact_id).where(n.campaign_id == OF_CAMPAIGN, is_stopped)
    waiting = and_(e.campaign_id == OF_CAMPAIGN, e.status == PLANNED, e.contact_id.in_(stopped))
    return update(executions).where(waiting).values(status=SKIPPED, reason="the contact is stopped")


# Constants, because building a statement takes longer than its execution.
OF_CAMPAIGN: BindParameter[int] = bindparam("of_campaign")
FOLLOWUPS, SKIP_STOPPED = _followups(), _skip_stopped()


def _has_followups(connection: Connection, campaign: Campaign, previous: CampaignStep, step: CampaignStep) -> bool:
    steps_of = {"of_campaign": campaign.id, "of_step": step.id, "of_previous": previous.id}
    return connection.execute(FOLLOWUPS, steps_of).first() is not None
