"""An alert as a webhook, signed by the rules of standardwebhooks.com: its receivers know how to check it."""

import base64
import hashlib
import hmac
from datetime import datetime

from mayfly import jsontext
from mayfly.alerts.decide import Alert
from mayfly.alerts.http import post


def send(url: str, secret: str, alert: Alert, host: str, now: datetime) -> None:
    body = body_of(alert, host, now)
    post(url, body, {"Content-Type": "application/json", **signed(secret, alert.message_id, body, now)})


def body_of(alert: Alert, host: str, now: datetime) -> bytes:
    data = {
        "fingerprint": alert.fingerprint,
        "kind": alert.kind,
        "subject": alert.subject,
        "detail": alert.detail,
        "times": alert.times,
        "first_at": alert.first_at.isoformat(),
        "last_at": alert.last_at.isoformat(),
        "told_by": host,
    }
    message = {"type": f"mayfly.alert.{alert.state}", "timestamp": now.isoformat(), "data": data}
    return jsontext.encode(message).encode()


def signed(secret: str, message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    timestamp = str(int(now.timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}
