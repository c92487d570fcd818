"""The payloads of the mail room."""

from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from handlers.mail.payloads import Address
from handlers.payloads import DEFAULT_TENANT, EffectName, Id, Line, Payload, Tenant

MAX_RANGE_DAYS = 3_700
MAX_TEXT_LENGTH = 1 << 20  # of a body in a payload

BlobHash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MessageId = Annotated[str, StringConstraints(min_length=1, max_length=998)]
MessageType = Literal["plain", "reply", "auto_reply", "bounce", "complaint", "warmup"]


class InboundAttachment(Payload):
    """Its content is base64. Large ones do not fit into a payload: store the raw message instead."""

    name: Annotated[Line, StringConstraints(max_length=255)] = ""
    type: Annotated[Line, StringConstraints(max_length=190)] = "application/octet-stream"
    content: str = ""


class InboundEmail(Payload):
    """Either `raw_hash`, the blob of a message that is stored already, or the fields of a parsed message."""

    model_config = ConfigDict(extra="forbid", defer_build=True, populate_by_name=True)

    tenant_id: Tenant = DEFAULT_TENANT
    email_account_id: Id | None = None
    raw_hash: BlobHash | None = None
    recipient: Annotated[Line, StringConstraints(max_length=320)] | None = None  # of the envelope
    sender: Annotated[Line, StringConstraints(max_length=320)] | None = None  # of the envelope
    is_cut: bool = False  # the stored message is only the beginning of a larger one
    direction: Literal["inbound", "outbound"] = "inbound"
    type: MessageType | None = None
    from_: Annotated[str | None, Field(alias="from")] = None
    to: str | list[str] = Field(default_factory=list)
    subject: str = ""
    body: Annotated[str, StringConstraints(max_length=MAX_TEXT_LENGTH)] | None = None
    html: Annotated[str, StringConstraints(max_length=MAX_TEXT_LENGTH)] | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    message_id: Annotated[MessageId | None, Field(alias="messageId")] = None
    attachments: Annotated[list[InboundAttachment], Field(default_factory=list, max_length=100)]

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.raw_hash is None) == (self.from_ is None):
            raise ValueError("needs either raw_hash or the fields of a parsed message, at least `from`")
        return self


class BounceReport(Payload):
    """Either `report`, a row of app_mail_messages with a bounce, or what a provider reported."""

    tenant_id: Tenant = DEFAULT_TENANT
    report: Id | None = None
    key: EffectName | None = None  # of a provider's event: the same key is counted once
    message_id: MessageId | None = None  # of the email that bounced
    address: Address | None = None
    kind: Literal["hard", "soft"] = "hard"
    code: Annotated[str, StringConstraints(pattern=r"^[245]\.\d{1,3}\.\d{1,3}$")] | None = None
    reason: str = ""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.report is None) == (self.key is None):
            raise ValueError("needs either report, or key with message_id or address")
        if self.key is not None and self.message_id is self.address is None:
            raise ValueError("needs message_id or address")
        return self


class CampaignEmail(Payload):
    """One email of a campaign to one of its contacts, from a stored template."""

    tenant_id: Tenant = DEFAULT_TENANT
    campaign_id: Id
    recipient_id: Id  # of app_contacts
    email_template: Annotated[Line, StringConstraints(min_length=1, max_length=190)]
    personalizations: dict[str, Any] = Field(default_factory=dict)
    key: EffectName | None = None


class MailboxPoll(Payload):
    """One folder of one account; without an account, all active accounts."""

    email_account_id: Id | None = None
    folder: Annotated[Line, StringConstraints(min_length=1, max_length=190)] = "INBOX"


class MailPruning(Payload):
    """Of expired contents."""


class DailyRange(Payload):
    """Days of UTC to compute again, the first and the last one; without them, those whose deliveries have changed."""

    tenant_id: Tenant | None = None  # None: all tenants
    days: tuple[date, date] | None = None

    @model_validator(mode="after")
    def _is_range(self) -> Self:
        if self.days is None and self.tenant_id is not None:
            raise ValueError("a tenant_id needs days")
        if self.days is not None and not 0 <= (self.days[1] - self.days[0]).days < MAX_RANGE_DAYS:
            raise ValueError(f"the last day must not be before the first one, nor {MAX_RANGE_DAYS:,} days after it")
        return self


class WebhookTask(Payload):
    """One event of a tenant for one endpoint: rows of app_webhook_endpoints and app_webhook_deliveries."""

    endpoint: Id
    delivery: Id


class ProviderEvents(Payload):
    """Events that a provider has reported: rows of app_mail_events."""

    events: Annotated[list[Id], Field(min_length=1, max_length=100)]


class WarmupStep(Payload):
    """One step of the warm-up of an account. The same step is done once."""

    email_account_id: Id
    warmup_type: Literal["outbound", "inbound", "engagement"]
    sequence_step: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class WarmupPlan(Payload):
    """No fields: enqueued by schedule."""
