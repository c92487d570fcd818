"""Signed requests of mail providers, in their own formats."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from hmac import digest
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from standardwebhooks import Webhook

MAILGUN_KEY, SECRET = "key-123", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SENDGRID_KEY = ec.derive_private_key(7, ec.SECP256R1())
SENDGRID_PUBLIC = b64encode(
    SENDGRID_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
).decode()
SETTINGS = {"MAILGUN_SIGNING_KEY": MAILGUN_KEY, "SENDGRID_EVENTS_KEY": SENDGRID_PUBLIC, "MAIL_EVENTS_SECRET": SECRET}


class SignedRequest(NamedTuple):
    headers: dict[str, str]
    body: bytes


class Happened(NamedTuple):
    """What a provider reports: delivered, bounced, deferred, complained or unsubscribed."""

    kind: str
    message_id: str
    recipient: str = "bob@example.com"
    key: str = "event-1"


def mailgun(at: datetime, happened: Happened, key: str = MAILGUN_KEY) -> SignedRequest:
    """One event per request."""
    names = {"bounced": ("failed", "permanent"), "deferred": ("failed", "temporary")}
    event, severity = names.get(happened.kind, (happened.kind, None))
    status = {"code": 550, "message": "5.1.1 no such user", "enhanced-code": "5.1.1"}
    data = {
        "event": event,
        "severity": severity,
        "id": happened.key,
        "timestamp": at.timestamp(),
        "message": {"headers": {"message-id": happened.message_id, "to": happened.recipient}},
        "recipient": happened.recipient,
        "delivery-status": status if happened.kind in names else {"code": 250, "message": "OK"},
    }
    timestamp, token = str(int(at.timestamp())), f"token-{happened.key}"
    signature = digest(key.encode(), f"{timestamp}{token}".encode(), sha256).hex()
    content = {"signature": {"timestamp": timestamp, "token": token, "signature": signature}, "event-data": data}
    return SignedRequest({"Content-Type": "application/json"}, json.dumps(content).encode())


def sendgrid(at: datetime, *happened: Happened) -> SignedRequest:
    """Any number of events."""
    names = {"bounced": "bounce", "complained": "spamreport", "unsubscribed": "unsubscribe"}
    events = []
    for each in happened:
        event: dict[str, Any] = {
            "event": names.get(each.kind, each.kind),
            "sg_event_id": each.key,
            "smtp-id": f"<{each.message_id}>",
            "email": each.recipient,
            "timestamp": int(at.timestamp()),
        }
        if each.kind == "bounced":
            event |= {"type": "bounce", "status": "5.1.1", "reason": "550 5.1.1 no such user"}
        events.append(event)
    body, timestamp = json.dumps(events).encode(), str(int(at.timestamp()))
    signature = b64encode(SENDGRID_KEY.sign(timestamp.encode() + body, ec.ECDSA(SHA256()))).decode()
    headers = {
        "X-Twilio-Email-Event-Webhook-Signature": signature,
        "X-Twilio-Email-Event-Webhook-Timestamp": timestamp,
    }
    return SignedRequest(headers, body)


def standard(at: datetime, happened: Happened) -> SignedRequest:
    data = {"message_id": f"<{happened.message_id}>", "recipient": happened.recipient}
    if happened.kind in ("bounced", "deferred"):
        data |= {"code": "5.1.1", "reason": "no such user"}
    body = json.dumps({"type": f"mail.{happened.kind}", "timestamp": at.isoformat(), "data": data})
    headers = {
        "Webhook-Id": happened.key,
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": Webhook(SECRET).sign(happened.key, at, body),
    }
    return SignedRequest(headers, body.encode())


REQUESTS: dict[str, Callable[[datetime, Happened], SignedRequest]] = {  # of one event
    "mailgun": mailgun, "sendgrid": sendgrid, "standard": standard,
}  # fmt: skip
