"""The tables of people, boards, their members and posts, and the queries of this area."""

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    Connection,
    RowMapping,
    Select,
    String,
    Table,
    Update,
    case,
    or_,
    select,
    update,
)

from handlers.schema import Id, LongText, UtcTimestamp, metadata
from mayfly import Job

people = Table(
    "app_people",
    metadata,
    Column("id", Id, primary_key=True),
    Column("email", String(190), nullable=False),
    Column("name", String(190), nullable=False),
    Column("created_at", UtcTimestamp, nullable=False),
)

boards = Table(
    "app_boards",
    metadata,
    Column("id", Id, primary_key=True),
    Column("title", String(190), nullable=False),
    Column("state", String(16), nullable=False),  # open, closed or archived
    Column("created_at", UtcTimestamp, nullable=False),
    Column("closed_at", UtcTimestamp),
    Column("archived_at", UtcTimestamp),
    Column("archive", String(190)),  # name of the zip file
)

members = Table(
    "app_members",
    metadata,
    Column("board_id", Id, primary_key=True, autoincrement=False),
    Column("person_id", Id, primary_key=True, autoincrement=False),
    Column("joined_at", UtcTimestamp, nullable=False),
)

channels = Table(
    "app_channels",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", String(16), nullable=False),  # mastodon or webhook
    Column("url", String(500), nullable=False),
    Column("credential", String(64), nullable=False),  # name of the setting that holds the secret
)

posts = Table(
    "app_posts",
    metadata,
    Column("id", Id, primary_key=True),
    Column("board_id", Id, nullable=False),
    Column("author_id", Id),  # NULL: the co-facilitator
    Column("body", LongText, nullable=False),
    Column("state", String(16), nullable=False),  # draft, scheduled, published or withdrawn
    Column("created_at", UtcTimestamp, nullable=False),
    Column("channel_id", Id),  # where it is published, in addition to its board
    Column("publish_at", UtcTimestamp),
    Column("published_at", UtcTimestamp),
    Column("remote_id", String(190)),  # id in the channel
    Column("queued_at", UtcTimestamp),  # when publish_due_posts enqueued it
)

# --- posts ------------------------------------------------------------------------------------------------


class PostRow(NamedTuple):
    """A post with the state of its board and its channel."""

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
    p, c = posts.c, channels.c
    query = (
        select(
            p.id, p.board_id, p.author_id, p.body, p.state, p.created_at, p.publish_at, p.remote_id,
            boards.c.state, p.channel_id, c.kind, c.url, c.credential,
        )
        .select_from(posts.outerjoin(boards, boards.c.id == p.board_id).outerjoin(channels, c.id == p.channel_id))
        .where(p.id == post_id)
    )  # fmt: skip

    def find(connection: Connection) -> PostRow | None:
        row = connection.execute(query).first()
        return None if row is None else PostRow._make(row)

    return job.read(find)


def mark_published(post_id: int, now: datetime, remote_id: str | None) -> Update:
    """A post that was withdrawn in the meantime stays withdrawn, but gets the id of its published copy."""
    state = case((posts.c.state == "scheduled", "published"), else_=posts.c.state)
    return update(posts).where(posts.c.id == post_id).values(published_at=now, remote_id=remote_id, state=state)


def due_posts(now: datetime, limit: int) -> Select[Any]:
    """Each `publish_at` of a post is enqueued once: a post is due again only if it gets a later one."""
    p = posts.c
    return (
        select(p.id)
        .where(
            p.state == "scheduled",
            p.publish_at <= now,
            or_(p.queued_at.is_(None), p.queued_at < p.publish_at),
            select(boards.c.id).where(boards.c.id == p.board_id, boards.c.state == "open").exists(),
        )
        .order_by(p.publish_at, p.id)
        .limit(limit)
    )


def posts_after(job: Job, board_id: int, after: int, limit: int) -> list[dict[str, Any]]:
    """The posts of a board with the columns that are exported."""
    p = posts.c
    query = (
        select(
            p.id, p.author_id, people.c.name.label("author"), p.body, p.state, p.created_at, p.publish_at,
            p.published_at, p.channel_id, p.remote_id,
        )
        .select_from(posts.outerjoin(people, people.c.id == p.author_id))
        .where(p.board_id == board_id, p.id > after)
        .order_by(p.id)
        .limit(limit)
    )  # fmt: skip
    return job.read(lambda connection: [_exported(row) for row in connection.execute(query).mappings()])


def _exported(row: RowMapping) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


# --- boards -----------------------------------------------------------------------------------------------


class BoardRow(NamedTuple):
    id: int
    title: str
    state: str
    created_at: datetime
    closed_at: datetime | None
    archived_at: datetime | None
    archive: str | None


class BoardMember(NamedTuple):
    id: int
    name: str
    email: str
    joined_at: datetime


def find_board(connection: Connection, board_id: int) -> BoardRow | None:
    columns = [boards.c[name] for name in BoardRow._fields]
    row = connection.execute(select(*columns).where(boards.c.id == board_id)).first()
    return None if row is None else BoardRow._make(row)


def mark_closed(board_id: int, now: datetime) -> Update:
    is_open = (boards.c.id == board_id) & (boards.c.state == "open")
    return update(boards).where(is_open).values(state="closed", closed_at=now)


def mark_archived(board_id: int, now: datetime, archive: str) -> Update:
    is_closed = (boards.c.id == board_id) & (boards.c.state == "closed")
    return update(boards).where(is_closed).values(state="archived", archived_at=now, archive=archive)


def members_after(job: Job, board_id: int, after: int, limit: int) -> list[BoardMember]:
    m = members.c
    query = (
        select(m.person_id, people.c.name, people.c.email, m.joined_at)
        .join_from(members, people, people.c.id == m.person_id)
        .where(m.board_id == board_id, m.person_id > after)
        .order_by(m.person_id)
        .limit(limit)
    )
    return job.read(lambda connection: [BoardMember._make(row) for row in connection.execute(query)])
