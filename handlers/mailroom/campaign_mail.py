"""send_campaign_email: one email of a campaign, from a stored template, to a contact that may still be contacted."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, select

from handlers.campaigns.campaign import UnknownCampaign, load_campaign
from handlers.campaigns.enrolment import exclusions
from handlers.campaigns.tables import ACTIVE, contacts, enrolments
from handlers.mail.accounts import Account
from handlers.mail.bulk import UnsubscribeLinks
from handlers.mail.delivery import deliver
from handlers.mail.payloads import Mail
from handlers.mailroom.deliveries import MailOrigin
from handlers.mailroom.payloads import CampaignEmail
from mayfly import Cancel, Dead, Job


def send(job: Job, email: CampaignEmail, accounts: Sequence[Account]) -> dict[str, Any]:
    contact = job.read(lambda connection: _load(connection, email))
    origin = MailOrigin(email.tenant_id, email.campaign_id, email.recipient_id)
    return deliver(job, _mail(email, contact), accounts, origin)


def _load(connection: Connection, email: CampaignEmail) -> Row[Any]:
    try:
        campaign = load_campaign(connection, email.campaign_id)
    except UnknownCampaign as error:
        raise Dead(str(error)) from None
    if campaign.tenant_id != email.tenant_id:
        raise Dead(f"the campaign {email.campaign_id} does not belong to the tenant {email.tenant_id}")
    if campaign.status != ACTIVE:
        raise Cancel(f"the campaign {campaign.name} is {campaign.status}")
    c = contacts.c
    wanted = select(contacts).where(c.id == email.recipient_id, c.tenant_id == email.tenant_id)
    contact = connection.execute(wanted).first()
    if contact is None or not contact.email:
        raise Dead(f"the contact {email.recipient_id} does not exist, or has no email address")
    stopped = select(enrolments.c.stop_reason).where(
        enrolments.c.campaign_id == email.campaign_id, enrolments.c.contact_id == email.recipient_id
    )
    reason = connection.scalar(stopped) or exclusions(connection, email.tenant_id, [contact]).get(contact.id)
    if reason is not None:
        raise Cancel(f"the contact {email.recipient_id} is not contacted: {reason}")
    return contact


def _mail(email: CampaignEmail, contact: Row[Any]) -> Mail:
    """One email per campaign, contact and template, unless the payload has a key."""
    own = {name: getattr(contact, name) for name in ("name", "email", "phone", "company")}
    values = {**own, **(contact.fields or {}), **email.personalizations}
    fields = {
        "to": contact.email,
        "template": email.email_template,
        "context": {name: value for name, value in values.items() if value not in (None, "")},
        "unsubscribe": UnsubscribeLinks(email.tenant_id).link_for(contact.email),
        "key": email.key or f"campaign:{email.campaign_id}:{email.recipient_id}:{email.email_template}"[:150],
        "tenant_id": email.tenant_id,
    }
    try:
        return Mail.model_validate(fields)
    except ValidationError as error:
        raise Dead(f"the email is not valid: {error.errors()[0]['msg']}") from None
