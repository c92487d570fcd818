"""A post as a status of Mastodon, or of whoever speaks its language."""

import json
from datetime import datetime

from handlers.boards.channel import Channel
from handlers.boards.tables import PostRow
from mayfly import Retry

PATH = "/api/v1/statuses"
LONGEST_ID = 190


def send(channel: Channel, post: PostRow, key: str, _now: datetime) -> str:
    """The id of the status. Asked again with the same key, the server answers with the same status."""
    body = json.dumps({"status": post.body}, separators=(",", ":")).encode()
    headers = {"Authorization": f"Bearer {channel.secret}", "Idempotency-Key": key}
    answer = channel.post(PATH, body, headers).json()
    found = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(found, str) or not 0 < len(found) <= LONGEST_ID or not found.isprintable():
        raise Retry(f"{channel.who} answered without the id of a status")
    return found
