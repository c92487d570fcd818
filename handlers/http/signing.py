"""Sign and verify requests by Standard Webhooks: receivers can check the sender and detect duplicates."""

from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from mayfly import Dead

if TYPE_CHECKING:
    from standardwebhooks import Webhook

PREFIX = "whsec_"


def signed_headers(message_id: str, body: str, now: datetime, *keys: bytes) -> dict[str, str]:
    """One signature per key. Each try has its own timestamp, because receivers refuse old ones."""
    signatures = [_webhook(key).sign(message_id, now, body) for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }


def is_signed(body: bytes, headers: Mapping[str, str], key: bytes) -> bool:
    """Whether a received request was signed with this key in the last five minutes."""
    webhook = _webhook(key)
    from standardwebhooks import WebhookVerificationError  # after the check that it is installed

    try:
        webhook.verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # ValueError: malformed headers, or a body that is not UTF-8
        return False
    return True


def key_of(secret: str) -> bytes:
    """Decode strictly: the library ignores characters that are not base64, and would sign with another key."""
    try:
        found = b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        found = b""
    if not found:
        raise Dead("the secret of a webhook must be base64, with or without the prefix whsec_")
    return found


def _webhook(key: bytes) -> "Webhook":
    try:
        from standardwebhooks import Webhook
    except ModuleNotFoundError:
        raise Dead("webhooks need standardwebhooks: pip install 'mayfly-jobs[webhooks]'") from None
    return Webhook(key)
