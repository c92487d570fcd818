"""Stage 1: enrol the contacts of a campaign, each person once, and schedule its steps."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, or_, select, update

from handlers.campaigns.campaign import Campaign, enqueue_planning, load_campaign, load_steps
from handlers.campaigns.tables import ACTIVE, bans, campaign_lead_groups, campaigns, contacts, enrolments, steps
from handlers.suppressions import canonical, suppressed_on
from handlers.upsert import insert_missing
from mayfly import Cancel, Job

PAGE_SIZE = 1000  # contacts; takes a fraction of a second
BANNED, REPLIED = "banned", "replied"
BAN_KINDS = ("address", "domain", "company")

# Constants, because each message needs them, and building a statement takes longer than its execution.
# By kind: MariaDB scans the whole table for (a, b) IN ((1, 2), …).
AMONG_BANS = select(bans.c.kind, bans.c.value).where(
    bans.c.tenant_id == bindparam("tenant"),
    or_(*(and_(bans.c.kind == kind, bans.c.value.in_(bindparam(kind, expanding=True))) for kind in BAN_KINDS)),
)


@dataclass(frozen=True)
class EnrolmentProgress:
    """The checkpoint."""

    after: int = 0  # id of the last contact
    read: int = 0
    banned: int = 0
    replied: int = 0
    suppressed: int = 0


def enrol(job: Job, campaign_id: int) -> dict[str, int]:
    state = EnrolmentProgress(**(job.state or {}))
    while True:
        before = state
        state = job.write(lambda connection: _enrol_page(connection, campaign_id, before))  # noqa: B023
        if state == before:
            break
        job.progress(state.read, text="contacts")
        job.checkpoint(asdict(state))
    return _schedule(job, campaign_id, state)


def _enrol_page(connection: Connection, campaign_id: int, state: EnrolmentProgress) -> EnrolmentProgress:
    """Returns the same state when no contact is left."""
    campaign = active_campaign(connection, campaign_id)
    found = connection.execute(_contacts_after(campaign, state.after)).all()
    if not found:
        return state
    excluded = exclusions(connection, campaign.tenant_id, found)
    rows = [
        {"tenant_id": campaign.tenant_id, "campaign_id": campaign.id, "contact_id": each.id, **keys_of(each)}
        for each in found
        if each.id not in excluded
    ]
    if rows:
        insert_missing(connection, enrolments, rows)  # a duplicate has the same email_key or phone_key
    reasons = list(excluded.values())
    return EnrolmentProgress(
        after=found[-1].id,
        read=state.read + len(found),
        banned=state.banned + reasons.count(BANNED),
        replied=state.replied + reasons.count(REPLIED),
        suppressed=state.suppressed + sum(each not in (BANNED, REPLIED) for each in reasons),
    )


def active_campaign(connection: Connection, campaign_id: int) -> Campaign:
    """Locked. `resume` enqueues the job of a paused campaign again."""
    campaign = load_campaign(connection, campaign_id, lock=True)
    if campaign.status != ACTIVE:
        raise Cancel(f"the campaign {campaign.name} is {campaign.status}")
    return campaign


def _contacts_after(campaign: Campaign, after: int) -> Any:
    return contacts_of(campaign).where(contacts.c.id > after).limit(PAGE_SIZE)


def contacts_of(campaign: Campaign) -> Select[Any]:
    """Of its lead groups and its tenant."""
    g, c = campaign_lead_groups.c, contacts.c
    groups = select(g.lead_group_id).where(g.campaign_id == campaign.id)
    of_tenant = select(contacts).where(c.tenant_id == campaign.tenant_id, c.lead_group_id.in_(groups))
    return of_tenant.order_by(c.id)


def keys_of(contact: Any) -> dict[str, str | None]:
    """Canonical, so that two spellings of an address or number are one person."""
    email = canonical(contact.email) if contact.email else None
    return {"email_key": email or None, "phone_key": canonical_number(contact.phone)}


def canonical_number(number: str | None) -> str | None:
    """Digits with a plus sign: +49 (30) 123-456 is +4930123456."""
    digits = re.sub(r"[^0-9]", "", number or "")
    return f"+{digits}" if digits else None


def exclusions(connection: Connection, tenant_id: str, found: Sequence[Row[Any]]) -> dict[int, str]:
    """The contacts that must not be contacted, with the reason: replied, banned, or why they are suppressed."""
    banned = _banned_among(connection, tenant_id, found)
    stopped = suppressed_on(connection, tenant_id, sorted(_keys_among(found)))
    reasons = {each.id: _reason(each, banned, stopped) for each in found}
    return {contact_id: reason for contact_id, reason in reasons.items() if reason is not None}


def _reason(contact: Any, banned: set[tuple[str, str]], stopped: Mapping[str, str]) -> str | None:
    if contact.replied_at is not None:
        return REPLIED
    if contact.banned or not banned.isdisjoint(_bannable(contact)):
        return BANNED
    return next((stopped[each] for each in keys_of(contact).values() if each and each in stopped), None)


def _bannable(contact: Any) -> set[tuple[str, str]]:
    """Each form under which the contact may be in app_bans."""
    keys = keys_of(contact)
    found = {("address", each) for each in keys.values() if each}
    if keys["email_key"]:
        found.add(("domain", keys["email_key"].rpartition("@")[2]))
    if contact.company:
        found.add(("company", contact.company.strip().lower()))
    return found


def _banned_among(connection: Connection, tenant_id: str, found: Iterable[Row[Any]]) -> set[tuple[str, str]]:
    wanted: dict[str, set[str]] = {kind: set() for kind in BAN_KINDS}
    for kind, value in {ban for each in found for ban in _bannable(each)}:
        wanted[kind].add(value)
    values = {kind: sorted(values) for kind, values in wanted.items()}
    rows = connection.execute(AMONG_BANS, {"tenant": tenant_id, **values})
    return {(row.kind, row.value) for row in rows}


def _keys_among(found: Iterable[Row[Any]]) -> set[str]:
    return {key for each in found for key in keys_of(each).values() if key}


def _schedule(job: Job, campaign_id: int, state: EnrolmentProgress) -> dict[str, int]:
    """The times of the steps, and their planning jobs, commit together with the end of this job."""
    now = job.now
    with job.transaction() as connection:
        campaign = active_campaign(connection, campaign_id)
        for step in load_steps(connection, campaign.id):
            at = now + timedelta(days=step.days)
            connection.execute(update(steps).where(steps.c.id == step.id).values(scheduled_at=at))
            enqueue_planning(connection, campaign, step, at)
        connection.execute(update(campaigns).where(campaigns.c.id == campaign.id).values(started_at=now))
    return {name: figure for name, figure in asdict(state).items() if name != "after"}
