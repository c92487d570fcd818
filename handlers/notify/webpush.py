"""Web push: encrypted for one browser (RFC 8291), signed for its push service (RFC 8292)."""

import base64
import hashlib
import json
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import http_ece  # type: ignore[import-untyped]
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02, VapidException  # type: ignore[import-untyped]

from handlers.notify.message import PushMessage
from handlers.notify.payloads import Notification
from handlers.notify.tables import Subscription
from mayfly import Cancel, Dead, setting

TIME_TO_LIVE = timedelta(days=1)  # how long the push service keeps it for a browser that is offline
SIGNED_FOR = timedelta(hours=12)  # push services refuse more than a day


def write(notification: Notification, subscription: Subscription, key: str, now: datetime) -> PushMessage:
    tag = tag_of(key)
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "aes128gcm",
        "TTL": str(int(TIME_TO_LIVE.total_seconds())),
        "Topic": tag,  # a repeated message replaces an undelivered one
        "Authorization": _signature(subscription.url, now),
    }
    return PushMessage(subscription.url, encrypted(content_of(notification, tag), subscription), headers)


def tag_of(key: str) -> str:
    """32 characters, the maximum for a topic."""
    return base64.urlsafe_b64encode(hashlib.sha256(key.encode()).digest()[:24]).decode()


def content_of(notification: Notification, tag: str) -> bytes:
    """The data for the page's service worker; a notification replaces a displayed one with the same tag."""
    content = {"title": notification.title, "body": notification.body, "url": notification.url, "tag": tag}
    return json.dumps(content, ensure_ascii=False).encode()


def encrypted(content: bytes, subscription: Subscription) -> bytes:
    ephemeral = ec.generate_private_key(ec.SECP256R1())
    try:
        keys = {"dh": _decoded(subscription.p256dh), "auth_secret": _decoded(subscription.auth)}
        made: bytes = http_ece.encrypt(content, private_key=ephemeral, **keys, version="aes128gcm")
    except (http_ece.ECEException, ValueError) as error:
        kind = type(error).__name__
        raise Dead(f"the keys of subscription {subscription.id} cannot be used: {kind}") from None
    return made


def _signature(url: str, now: datetime) -> str:
    private_key, subject = _configured("VAPID_PRIVATE_KEY"), _configured("VAPID_SUBJECT")
    parts = urlsplit(url)
    claims = {"sub": subject, "aud": f"{parts.scheme}://{parts.netloc}", "exp": int((now + SIGNED_FOR).timestamp())}
    try:
        signed: str = Vapid02.from_string(private_key).sign(claims)["Authorization"]
    except (VapidException, ValueError, TypeError, UnsupportedAlgorithm) as error:
        # Only the class name: the text of some errors contains the key.
        raise Dead(f"VAPID_PRIVATE_KEY or VAPID_SUBJECT cannot be used: {type(error).__name__}") from None
    return signed


def _configured(name: str) -> str:
    """Like `requires`, which applies to a whole handler; only browsers need these keys."""
    found = setting(name, "")
    if not found:
        raise Cancel(f"integration not configured: {name}")
    return found


def _decoded(text: str | None) -> bytes:
    """Browsers omit the padding."""
    return base64.urlsafe_b64decode((text or "") + "===")
