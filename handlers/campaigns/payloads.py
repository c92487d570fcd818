"""The payloads of campaign jobs."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from handlers.payloads import DEFAULT_TENANT, Id, Line, Payload, Tenant

ContactAddress = Annotated[Line, StringConstraints(min_length=3, max_length=190)]


class CampaignStart(Payload):
    """The campaign whose contacts are enrolled."""

    campaign: Id


class CancelledRun(Payload):
    """The run of a campaign that was paused or cancelled."""

    campaign: Id
    run: Id


class StepPlan(Payload):
    """The step whose messages are planned."""

    campaign: Id
    step: Id


class StepMessage(Payload):
    """One step for one contact."""

    campaign: Id
    step: Id
    contact: Id


class ContactEvent(Payload):
    """What a contact of a tenant did, by address or phone number."""

    tenant_id: Tenant = DEFAULT_TENANT
    address: ContactAddress
    event: Literal["replied", "bounced", "unsubscribed", "complained"]


class SenderProblem(Payload):
    sender: Line
    reason: Line


class NoFields(Payload):
    """Of recurring jobs."""
