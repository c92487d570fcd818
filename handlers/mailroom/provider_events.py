"""Events that mail providers report over HTTP: check the signature of a request, read its events. No database.

Mailgun and SendGrid have formats of their own. `standard` is for any other sender: Standard Webhooks with the type
mail.delivered, mail.bounced, mail.deferred, mail.complained or mail.unsubscribed; the data are message_id, recipient,
code and reason.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from handlers.http.signing import is_signed, key_of
from handlers.mailroom.signatures import BadSignature, check_mailgun, check_sendgrid
from handlers.mailroom.tables import MAX_ID_LENGTH, MAX_REASON_LENGTH

DELIVERED, BOUNCED, DEFERRED = "delivered", "bounced", "deferred"
COMPLAINED, UNSUBSCRIBED = "complained", "unsubscribed"
KINDS = (DELIVERED, BOUNCED, DEFERRED, COMPLAINED, UNSUBSCRIBED)
SENDGRID_HEADER = "x-twilio-email-event-webhook"
# What SendGrid did not send, because of an earlier event: its reasons for that.
SENDGRID_DROPS = {
    "bounced address": BOUNCED,
    "invalid": BOUNCED,
    "spam reporting address": COMPLAINED,
    "unsubscribed address": UNSUBSCRIBED,
}


class BadRequest(Exception):
    """A signed request that is not in the provider's format."""


class ProviderEvent(NamedTuple):
    key: str  # the provider's own id of the event
    kind: str
    message_id: str  # without angle brackets
    recipient: str
    occurred_at: datetime
    code: str | None = None  # RFC 3463, such as 5.1.1
    reason: str = ""

    @property
    def details(self) -> dict[str, str | None]:
        return {name: getattr(self, name) for name in ("message_id", "recipient", "code", "reason")}


class Provider(NamedTuple):
    key_setting: str  # with the key that checks signatures
    check: Callable[[str, Mapping[str, str], bytes, datetime], None]  # of key, headers, body, now
    events: Callable[[Any, Mapping[str, str]], Iterator[ProviderEvent | None]]  # of the body, which is JSON


def read_events(provider: Provider, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
    """Without those that mean nothing for a delivery, such as `processed`. Headers have names in lower case."""
    try:
        found = [each for each in provider.events(json.loads(body), headers) if each is not None]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise BadRequest(f"{type(error).__name__}: {error}") from error
    return [each for each in found if each.key and (each.message_id or each.recipient)]


# --- Mailgun ----------------------------------------------------------------------------------------------


def _check_mailgun(key: str, _headers: Mapping[str, str], body: bytes, now: datetime) -> None:
    """The signature is in the body, and does not cover the event."""
    try:
        signature = json.loads(body)["signature"]
        fields = {name: str(signature[name]) for name in ("timestamp", "token", "signature")}
    except (ValueError, KeyError, TypeError):
        raise BadSignature("The body has no signature.") from None
    check_mailgun(key, now, **fields)


def _mailgun_events(content: Any, _headers: Mapping[str, str]) -> Iterator[ProviderEvent | None]:
    event = content["event-data"]
    status = event.get("delivery-status") or {}
    failed = BOUNCED if event.get("severity") == "permanent" else DEFERRED
    kind = {"failed": failed, "rejected": BOUNCED}.get(event["event"], event["event"])
    yield _event(
        kind,
        key=event["id"],
        message_id=event.get("message", {}).get("headers", {}).get("message-id"),
        recipient=event.get("recipient"),
        occurred_at=_from_epoch(event["timestamp"]),
        code=status.get("enhanced-code"),
        reason=status.get("message") or status.get("description") or event.get("reason"),
    )


# --- SendGrid ---------------------------------------------------------------------------------------------


def _check_sendgrid(key: str, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
    timestamp, signature = (headers.get(f"{SENDGRID_HEADER}-{name}", "") for name in ("timestamp", "signature"))
    check_sendgrid(key, now, timestamp, signature, body)


def _sendgrid_events(content: Any, _headers: Mapping[str, str]) -> Iterator[ProviderEvent | None]:
    if not isinstance(content, list):
        raise TypeError("the body is not a list")
    for event in content:
        reason = str(event.get("reason") or event.get("response") or "")
        bounced = DEFERRED if event.get("type") == "blocked" else BOUNCED
        dropped = next((kind for start, kind in SENDGRID_DROPS.items() if reason.lower().startswith(start)), DEFERRED)
        kinds = {"bounce": bounced, "dropped": dropped, "spamreport": COMPLAINED, "unsubscribe": UNSUBSCRIBED}
        yield _event(
            kinds.get(event["event"], event["event"]),
            key=event["sg_event_id"],
            message_id=event.get("smtp-id"),
            recipient=event.get("email"),
            occurred_at=_from_epoch(event["timestamp"]),
            code=event.get("status"),
            reason=reason,
        )


# --- Standard Webhooks ------------------------------------------------------------------------------------


def _check_standard(key: str, headers: Mapping[str, str], body: bytes, _now: datetime) -> None:
    if not is_signed(body, headers, key_of(key)):
        raise BadSignature("The signature is missing, wrong or older than five minutes.")


def _standard_events(content: Any, headers: Mapping[str, str]) -> Iterator[ProviderEvent | None]:
    data = content["data"]
    at = datetime.fromisoformat(content["timestamp"])
    yield _event(
        str(content["type"]).removeprefix("mail."),
        key=headers["webhook-id"],
        message_id=data.get("message_id"),
        recipient=data.get("recipient"),
        occurred_at=at if at.tzinfo else at.replace(tzinfo=UTC),
        code=data.get("code"),
        reason=data.get("reason"),
    )


PROVIDERS = {
    "mailgun": Provider("MAILGUN_SIGNING_KEY", _check_mailgun, _mailgun_events),
    "sendgrid": Provider("SENDGRID_EVENTS_KEY", _check_sendgrid, _sendgrid_events),
    "standard": Provider("MAIL_EVENTS_SECRET", _check_standard, _standard_events),
}


# --- values from outside ----------------------------------------------------------------------------------


def _event(
    kind: object, *, key: object, message_id: object, recipient: object, occurred_at: datetime, code: object,
    reason: object,
) -> ProviderEvent | None:  # fmt: skip
    """None for a kind that means nothing for a delivery."""
    if kind not in KINDS:
        return None
    return ProviderEvent(
        str(key),
        str(kind),
        _line(message_id).strip("<>")[:MAX_ID_LENGTH],
        _line(recipient).lower()[:190],
        occurred_at,
        _line(code)[:16] or None,
        _line(reason)[:MAX_REASON_LENGTH],
    )


def _line(value: object) -> str:
    """One line of text that every database can store."""
    return " ".join("".join(each if each.isprintable() else " " for each in str(value or "")).split())


def _from_epoch(value: Any) -> datetime:
    return datetime.fromtimestamp(float(value), UTC)
