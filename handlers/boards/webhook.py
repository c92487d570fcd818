"""Publish a post as a signed webhook (Standard Webhooks): receivers can verify it and detect duplicates."""

import json
from datetime import datetime
from typing import Any

from handlers.boards.channel import PostChannel
from handlers.boards.tables import PostRow
from handlers.http.signing import key_of, signed_headers


def send(channel: PostChannel, post: PostRow, key: str, now: datetime) -> str:
    """Publish and return the key."""
    body = json.dumps(content(post), ensure_ascii=False, separators=(",", ":"))
    channel.post("", body.encode(), signed_headers(key, body, now, key_of(channel.secret)))
    return key


def content(post: PostRow) -> dict[str, Any]:
    """The body is the same for every try, so that a receiver can compare."""
    at = post.publish_at or post.created_at
    data = {"id": post.id, "board_id": post.board_id, "author_id": post.author_id, "body": post.body}
    return {"type": "post.published", "timestamp": at.isoformat(), "data": data}
