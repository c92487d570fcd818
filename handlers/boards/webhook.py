"""Publish a post as a signed webhook (Standard Webhooks): receivers can verify it and detect duplicates."""

import json
from base64 import b64decode
from datetime import datetime
from typing import Any

from handlers.boards.channel import PostChannel
from handlers.boards.tables import PostRow
from mayfly import Dead


def send(channel: PostChannel, post: PostRow, key: str, now: datetime) -> str:
    """Publish and return the key. Each try has its own timestamp, because receivers refuse old ones."""
    body = json.dumps(content(post), ensure_ascii=False, separators=(",", ":"))
    headers = {
        "webhook-id": key,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": _signature(channel.secret, key, now, body),
    }
    channel.post("", body.encode(), headers)
    return key


def content(post: PostRow) -> dict[str, Any]:
    """The body is the same for every try, so that a receiver can compare."""
    at = post.publish_at or post.created_at
    data = {"id": post.id, "board_id": post.board_id, "author_id": post.author_id, "body": post.body}
    return {"type": "post.published", "timestamp": at.isoformat(), "data": data}


def _signature(secret: str, key: str, now: datetime, body: str) -> str:
    try:
        from standardwebhooks import Webhook
    except ModuleNotFoundError:
        raise Dead("webhooks need standardwebhooks: pip install 'mayfly-jobs[webhooks]'") from None
    return str(Webhook(_key_in(secret)).sign(key, now, body))


def _key_in(secret: str) -> bytes:
    """Decode strictly: the library ignores characters that are not base64, and would sign with another key."""
    try:
        found = b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        found = b""
    if not found:
        raise Dead("the secret of a webhook must be base64, with or without the prefix whsec_")
    return found
