"""What boards, posts and their members are read and changed by."""

from datetime import datetime
from typing import Any, NamedTuple

from mayfly import Job, utc_from_driver

# --- posts ------------------------------------------------------------------------------------------------

POST = (
    "SELECT p.id, p.board_id, p.author_id, p.body, p.state, p.created_at, p.publish_at, p.remote_id,"
    " b.state, p.channel_id, c.kind, c.url, c.credential"
    " FROM app_posts p LEFT JOIN app_boards b ON b.id = p.board_id LEFT JOIN app_channels c ON c.id = p.channel_id"
    " WHERE p.id = :id"
)
# The state comes last: MySQL sets columns from left to right, and would look at the new one. A post that was
# withdrawn while it was on its way stays so, with the id of what is out there.
PUBLISHED = (
    "UPDATE app_posts SET published_at = :now, remote_id = :remote_id,"
    " state = CASE WHEN state = 'scheduled' THEN 'published' ELSE state END WHERE id = :id"
)
# Each time that a post is scheduled for becomes one job: whatever became of it, this is not asked again before the
# post has a later time.
DUE = (
    "SELECT p.id FROM app_posts p WHERE p.state = 'scheduled' AND p.publish_at <= :now"
    " AND (p.queued_at IS NULL OR p.queued_at < p.publish_at)"
    " AND EXISTS (SELECT 1 FROM app_boards b WHERE b.id = p.board_id AND b.state = 'open')"
    " ORDER BY p.publish_at, p.id LIMIT :most"
)
QUEUED = "UPDATE app_posts SET queued_at = :now WHERE {ids of id}"
HANDED_OVER_AT = "SELECT changed_at FROM app_effects WHERE effect_key = :key"
KEEP_AGE = "UPDATE app_effects SET changed_at = :at WHERE effect_key = :key AND state = 'handed over'"


class PostRow(NamedTuple):
    """A post with its board's state, and where it goes besides."""

    id: int
    board_id: int
    author_id: int | None
    body: str
    state: str
    created_at: datetime
    publish_at: datetime | None
    remote_id: str | None
    board_state: str | None
    channel_id: int | None
    kind: str | None
    url: str | None
    credential: str | None


def find_post(job: Job, post_id: int) -> PostRow | None:
    found = job.read(lambda connection: connection.execute(POST, {"id": post_id}).first())
    if found is None:
        return None
    row = PostRow(*found)
    publish_at = None if row.publish_at is None else utc_from_driver(row.publish_at)
    return row._replace(created_at=utc_from_driver(row.created_at), publish_at=publish_at)


# --- boards -----------------------------------------------------------------------------------------------

BOARD = "SELECT id, title, state, created_at, closed_at, archived_at, archive FROM app_boards WHERE id = :id"
CLOSE = "UPDATE app_boards SET state = 'closed', closed_at = :now WHERE id = :id AND state = 'open'"
ARCHIVE = (
    "UPDATE app_boards SET state = 'archived', archived_at = :now, archive = :archive"
    " WHERE id = :id AND state = 'closed'"
)
MEMBERS = (
    "SELECT m.person_id, p.name, p.email, m.joined_at FROM app_members m JOIN app_people p ON p.id = m.person_id"
    " WHERE m.board_id = :board_id AND m.person_id > :after ORDER BY m.person_id LIMIT :most"
)
POSTS = (
    "SELECT p.id, p.author_id, a.name, p.body, p.state, p.created_at, p.publish_at, p.published_at, p.channel_id,"
    " p.remote_id FROM app_posts p LEFT JOIN app_people a ON a.id = p.author_id"
    " WHERE p.board_id = :board_id AND p.id > :after ORDER BY p.id LIMIT :most"
)


class BoardRow(NamedTuple):
    id: int
    title: str
    state: str
    created_at: datetime
    closed_at: datetime | None
    archived_at: datetime | None
    archive: str | None


class Member(NamedTuple):
    id: int
    name: str
    email: str
    joined_at: datetime


def find_board(connection: Any, board_id: int) -> BoardRow | None:
    found = connection.execute(BOARD, {"id": board_id}).first()
    if found is None:
        return None
    board_id, title, state, created_at, closed_at, archived_at, archive = found
    return BoardRow(board_id, title, state, utc_from_driver(created_at), _utc(closed_at), _utc(archived_at), archive)


def members_after(job: Job, board_id: int, after: int, most: int) -> list[Member]:
    asked = {"board_id": board_id, "after": after, "most": most}
    found = job.read(lambda connection: connection.execute(MEMBERS, asked).all())
    return [Member(person, name, email, utc_from_driver(at)) for person, name, email, at in found]


def posts_after(job: Job, board_id: int, after: int, most: int) -> list[dict[str, Any]]:
    """As they are exported."""
    asked = {"board_id": board_id, "after": after, "most": most}
    names = ("id", "author_id", "author", "body", "state", "created_at", "publish_at", "published_at", "channel_id",
             "remote_id")  # fmt: skip
    found = job.read(lambda connection: connection.execute(POSTS, asked).all())
    return [dict(zip(names, (*each[:5], *map(_text, each[5:8]), *each[8:]), strict=True)) for each in found]


def _utc(value: Any) -> datetime | None:
    return None if value is None else utc_from_driver(value)


def _text(value: Any) -> str | None:
    return None if value is None else utc_from_driver(value).isoformat()
