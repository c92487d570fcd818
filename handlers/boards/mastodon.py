"""Publish a post as a Mastodon status, on any server with Mastodon's API."""

import json
from datetime import datetime

from handlers.boards.channel import PostChannel
from handlers.boards.tables import PostRow
from mayfly import Retry

PATH = "/api/v1/statuses"
MAX_ID_LENGTH = 190


def send(channel: PostChannel, post: PostRow, key: str, _now: datetime) -> str:
    """Publish and return the id of the status. For the same key the server returns the same status."""
    body = json.dumps({"status": post.body}, separators=(",", ":")).encode()
    headers = {"Authorization": f"Bearer {channel.secret}", "Idempotency-Key": key}
    response = channel.post(PATH, body, headers).json()
    found = response.get("id") if isinstance(response, dict) else None
    if not isinstance(found, str) or not 0 < len(found) <= MAX_ID_LENGTH or not found.isprintable():
        raise Retry(f"{channel.host} returned no status id")
    return found
