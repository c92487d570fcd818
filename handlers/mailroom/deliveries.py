"""The row of each email that is sent: written before it is handed over, so that even a fast bounce finds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, case, select, update

from handlers.mail.message import message_id_of, token_of
from handlers.mailroom.tables import (
    BOUNCED,
    COMPLAINED,
    DELIVERED,
    FAILED,
    HARD,
    MAX_REASON_LENGTH,
    OPEN,
    SENT,
    deliveries,
)
from handlers.mailroom.tenant_webhooks import publish
from handlers.payloads import DEFAULT_TENANT
from handlers.suppressions import canonical
from handlers.upsert import insert_missing
from mayfly import Job, setting

PLUS_TOKEN = "+{token}"  # noqa: S105 - a part of an address
TOKEN_LENGTH = 40
REPLIED = "replied"
MOVES_FROM = {DELIVERED: (OPEN, SENT), COMPLAINED: (OPEN, SENT, DELIVERED)}  # a reply changes no status

# Statements are constants where each email needs them: building one takes longer than its execution.
d = deliveries.c
OF_EFFECT = d.effect_key == bindparam("of_effect")
IN_STATUS = update(deliveries).where(OF_EFFECT, d.status.in_(bindparam("statuses", expanding=True)))
COMPLETE = (
    update(deliveries)
    .where(OF_EFFECT, d.sent_at.is_(None))
    .values(status=case((d.status == OPEN, SENT), else_=d.status))
)
RESULT = select(d.id, d.message_id).where(OF_EFFECT)


@dataclass(frozen=True)
class MailOrigin:
    """What an email belongs to."""

    tenant_id: str = DEFAULT_TENANT
    campaign_id: int | None = None
    contact_id: int | None = None
    step_id: int | None = None


class Delivery:
    """One email, in one run of its job. Its methods are parts of transactions of its effect."""

    def __init__(self, job: Job, effect_key: str, recipient: str, origin: MailOrigin) -> None:
        self._job, self._key, self._recipient, self._origin = job, effect_key, canonical(recipient), origin

    @property
    def bounces_to(self) -> str | None:
        """The sender of the envelope, with the token of this email (VERP)."""
        return plus_address("BOUNCE_ADDRESS", self._token)

    @property
    def replies_to(self) -> str | None:
        return plus_address("REPLY_ADDRESS", self._token)

    @cached_property
    def _token(self) -> str:
        return token_of(self._key)

    def hand_over(self, connection: Connection, provider: str, sender: str) -> None:
        now, origin = self._job.now, self._origin
        ids = {"message_id": message_id_of(self._key, sender), "token": self._token}
        common = {"job_id": self._job.id, "provider": provider[:190], "sender": canonical(sender), **ids}
        first = {
            "tenant_id": origin.tenant_id, "effect_key": self._key, "campaign_id": origin.campaign_id,
            "contact_id": origin.contact_id, "step_id": origin.step_id, "recipient": self._recipient[:190],
            "status": OPEN, "created_at": now, "changed_at": now,
        }  # fmt: skip
        if not insert_missing(connection, deliveries, {**first, **common}):  # an earlier run has written it
            self._change(connection, {**common, "status": OPEN}, OPEN, FAILED)

    def complete(self, connection: Connection, response: str) -> None:
        """A bounce may have been processed already: then only the response and the time are added."""
        values = {"response": response[:MAX_REASON_LENGTH], "sent_at": self._job.now, "changed_at": self._job.now}
        connection.execute(COMPLETE, {"of_effect": self._key, **values})

    def refuse(self, connection: Connection, provider: str, sender: str, response: str, is_bounce: bool) -> None:
        """The server refused it for good, perhaps before it was handed over."""
        self.hand_over(connection, provider, sender)
        short = response[:MAX_REASON_LENGTH]
        now = self._job.now  # a refused recipient counts as sent, so that no bounce rate exceeds 1
        bounce = {"sent_at": now, "bounced_at": now, "bounce_type": HARD, "bounce_reason": short} if is_bounce else {}
        self._change(connection, {"response": short, "status": BOUNCED if is_bounce else FAILED, **bounce}, OPEN)

    def result(self) -> dict[str, Any]:
        """For the result of the job; empty if its row was pruned."""
        row = self._job.read(lambda connection: connection.execute(RESULT, {"of_effect": self._key}).first())
        return {} if row is None else {"delivery_id": row.id, "message_id": row.message_id}

    def _change(self, connection: Connection, values: dict[str, Any], *statuses: str) -> None:
        key = {"of_effect": self._key, "statuses": statuses}
        connection.execute(IN_STATUS, {**key, "changed_at": self._job.now, **values})


def mark(connection: Connection, delivery: Row[Any], event: str, at: datetime, now: datetime) -> None:
    """Record that it was delivered, replied to or complained about; only the first time counts.

    Endpoints of the tenant get the event in the same transaction.
    """
    time = f"{event}_at"
    first = update(deliveries).where(d.id == delivery.id, d[time].is_(None))
    if not connection.execute(first.values({time: at, "changed_at": now})).rowcount:
        return
    moves = update(deliveries).where(d.id == delivery.id, d.status.in_(MOVES_FROM.get(event, ())))
    connection.execute(moves.values(status=event))
    publish(connection, delivery.tenant_id, f"mail.{event}", f"mail.{event}:{delivery.id}", facts_of(delivery), now)


def facts_of(delivery: Row[Any]) -> dict[str, Any]:
    """For the webhooks of the tenant."""
    names = ("message_id", "recipient", "sender", "campaign_id", "contact_id")
    return {"delivery_id": delivery.id, **{name: getattr(delivery, name) for name in names}}


def plus_address(setting_name: str, token: str) -> str | None:
    """bounces@shop.example becomes bounces+TOKEN@shop.example; None if the setting is missing."""
    local, at, domain = setting(setting_name, "").strip().rpartition("@")
    return f"{local}{PLUS_TOKEN.format(token=token)}@{domain}" if at and local else None


def token_in(address: str) -> str | None:
    """The token of a plus-address."""
    local, _, domain = address.strip().strip("<>").rpartition("@")
    token = local.rpartition("+")[2].lower()
    is_token = len(token) == TOKEN_LENGTH and all(each in "0123456789abcdef" for each in token)
    return token if domain and is_token and "+" in local else None


def find_delivery(
    connection: Connection, tenant_id: str, message_ids: Sequence[str], tokens: Sequence[str] = ()
) -> Row[Any] | None:
    """The delivery with one of these tokens, or else with the first of the Message-IDs that one has."""
    if tokens and (found := connection.execute(_of(tenant_id, d.token.in_(tokens))).first()) is not None:
        return found
    if not message_ids:
        return None
    rows = connection.execute(_of(tenant_id, d.message_id.in_(message_ids))).all()
    by_id = {row.message_id: row for row in rows}
    return next((by_id[each] for each in message_ids if each in by_id), None)


def _of(tenant_id: str, condition: ColumnElement[bool]) -> Any:
    return select(deliveries).where(condition, deliveries.c.tenant_id == tenant_id)
