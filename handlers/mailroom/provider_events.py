"""Events that mail providers report over HTTP: check the signature of a request, read its events. No database.

Mailgun and SendGrid have formats of their own. `standard` is for any other sender: Standard Webhooks with the type
mail.delivered, mail.bounced, mail.deferred, mail.complained or mail.unsubscribed; the data are message_id, recipient,
code and reason.
"""

import json
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Any, NamedTuple

from handlers.http.signing import is_signed, key_of
from handlers.mailroom.tables import MAX_ID_LENGTH, MAX_REASON_LENGTH
from mayfly import Dead

DELIVERED, BOUNCED, DEFERRED = "delivered", "bounced", "deferred"
COMPLAINED, UNSUBSCRIBED = "complained", "unsubscribed"
KINDS = (DELIVERED, BOUNCED, DEFERRED, COMPLAINED, UNSUBSCRIBED)
TOLERANCE = timedelta(minutes=5)  # between the clocks; an older request may be a recorded one
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
    is_authentic: Callable[[str, Mapping[str, str], bytes, datetime], bool]  # key, headers, body, now
    events: Callable[[Any, Mapping[str, str]], Iterator[ProviderEvent | None]]  # of the body, which is JSON


def read_events(provider: Provider, headers: Mapping[str, str], body: bytes) -> list[ProviderEvent]:
    """Without those that mean nothing for a delivery, such as `processed`. Headers have names in lower case."""
    try:
        found = [each for each in provider.events(json.loads(body), headers) if each is not None]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise BadRequest(f"{type(error).__name__}: {error}") from error
    return [each for each in found if each.key and (each.message_id or each.recipient)]


# --- Mailgun ----------------------------------------------------------------------------------------------


def _mailgun_is_authentic(key: str, _headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """The signature is in the body, and covers time and token only: the token must not be used twice."""
    try:
        signature = json.loads(body)["signature"]
        timestamp, token, given = (str(signature[name]) for name in ("timestamp", "token", "signature"))
    except (ValueError, KeyError, TypeError):
        return False
    wanted = digest(key.encode(), f"{timestamp}{token}".encode(), sha256).hex()
    return compare_digest(given.encode(), wanted.encode()) and _is_recent(timestamp, now)


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


def _sendgrid_is_authentic(key: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """ECDSA over time and body; the key is base64 of a DER public key, as SendGrid shows it."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_der_public_key
    except ModuleNotFoundError:
        raise Dead("SendGrid's signatures need cryptography: pip install 'mayfly-jobs[mailroom]'") from None
    timestamp = headers.get("x-twilio-email-event-webhook-timestamp", "")
    public = load_der_public_key(b64decode(key))
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise TypeError("the key is not one of an elliptic curve")
    try:
        signature = b64decode(headers.get("x-twilio-email-event-webhook-signature", ""), validate=True)
        public.verify(signature, timestamp.encode() + body, ec.ECDSA(SHA256()))
    except (InvalidSignature, BadBase64):
        return False
    return _is_recent(timestamp, now)


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


def _standard_is_authentic(key: str, headers: Mapping[str, str], body: bytes, _now: datetime) -> bool:
    return is_signed(body, headers, key_of(key))


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
    "mailgun": Provider("MAILGUN_SIGNING_KEY", _mailgun_is_authentic, _mailgun_events),
    "sendgrid": Provider("SENDGRID_EVENTS_KEY", _sendgrid_is_authentic, _sendgrid_events),
    "standard": Provider("MAIL_EVENTS_SECRET", _standard_is_authentic, _standard_events),
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


def _is_recent(timestamp: str, now: datetime) -> bool:
    try:
        return abs(now - _from_epoch(timestamp)) <= TOLERANCE
    except (ValueError, OverflowError, OSError):
        return False
