"""The tables of the model's texts, and the queries of this area."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    Select,
    String,
    Table,
    and_,
    case,
    func,
    insert,
    select,
    update,
)

from handlers.boards.tables import boards, posts
from handlers.schema import Id, LongText, UtcTimestamp, metadata
from handlers.upsert import insert_missing, upsert
from mayfly import Job

PAGE_SIZE = 500  # posts
MAX_SHOWN_LENGTH = 1000  # characters of each of the latest posts
LATEST_POSTS = 30
MAX_BOARDS = 100  # per run of the scheduled job; the next run finds the others

board_summaries = Table(
    "app_board_summaries",
    metadata,
    Column("board_id", Id, primary_key=True, autoincrement=False),
    Column("summary", LongText, nullable=False),
    Column("posts", Integer, nullable=False),
    Column("job_id", Id, nullable=False),
    Column("written_at", UtcTimestamp, nullable=False),
)

suggestions = Table(  # one draft per job, so that a repeated job finds its draft
    "app_suggestions",
    metadata,
    Column("job_id", Id, primary_key=True, autoincrement=False),
    Column("post_id", Id, nullable=False),
    Column("written_at", UtcTimestamp, nullable=False),
)

nudges = Table(  # one per board and day, written before the model is called
    "app_nudges",
    metadata,
    Column("board_id", Id, primary_key=True, autoincrement=False),
    Column("day", String(10), primary_key=True),  # in UTC, as 2026-05-04
    Column("state", String(16), nullable=False),  # asked, silent or posted
    Column("job_id", Id, nullable=False),
    Column("changed_at", UtcTimestamp, nullable=False),
)

# --- boards and posts -------------------------------------------------------------------------------------


class PostExcerpt(NamedTuple):
    """The part of a post that is sent to the model. Authors are numbers: their names are not sent."""

    id: int
    author_id: int | None
    published_at: datetime | None
    text: str

    def shown(self, text: str | None = None) -> dict[str, Any]:
        author = "co-facilitator" if self.author_id is None else f"person {self.author_id}"
        at = f"{self.published_at:%Y-%m-%d %H:%M}" if self.published_at else ""
        return {"author": author, "at": at, "text": self.text if text is None else text}


def title_of(job: Job, board_id: int) -> str | None:
    query = select(boards.c.title).where(boards.c.id == board_id, boards.c.state != "archived")
    return job.read(lambda connection: connection.scalar(query))


def count_posts(job: Job, board_id: int) -> int:
    query = select(func.count()).select_from(posts).where(*_published(board_id))
    return job.read(lambda connection: int(connection.execute(query).scalar_one()))


def posts_from(job: Job, board_id: int, post_id: int, offset: int, max_length: int) -> list[PostExcerpt]:
    """Posts in the order of their ids; the first one starts at the character `offset`."""
    start = case((posts.c.id == post_id, offset + 1), else_=1)
    query = _excerpts(board_id, func.substr(posts.c.body, start, max_length)).where(posts.c.id >= post_id)
    return _read(job, query.order_by(posts.c.id).limit(PAGE_SIZE))


def latest_posts(job: Job, board_id: int) -> list[PostExcerpt]:
    """The latest posts, newest first."""
    query = _excerpts(board_id, func.substr(posts.c.body, 1, MAX_SHOWN_LENGTH))
    return _read(job, query.order_by(posts.c.published_at.desc(), posts.c.id.desc()).limit(LATEST_POSTS))


def _published(board_id: int) -> tuple[ColumnElement[bool], ...]:
    return posts.c.board_id == board_id, posts.c.state == "published"


def _excerpts(board_id: int, text: ColumnElement[str]) -> Select[Any]:
    return select(posts.c.id, posts.c.author_id, posts.c.published_at, text).where(*_published(board_id))


def _read(job: Job, query: Select[Any]) -> list[PostExcerpt]:
    return job.read(lambda connection: [PostExcerpt._make(row) for row in connection.execute(query)])


# --- texts of the model -----------------------------------------------------------------------------------


def write_summary(job: Job, board_id: int, summary: str, post_count: int) -> None:
    row = {"board_id": board_id, "summary": summary, "posts": post_count, "job_id": job.id, "written_at": job.now}
    job.write(lambda connection: upsert(connection, board_summaries, row))


def suggested_post(job: Job) -> int | None:
    return job.read(lambda connection: _suggested_post(connection, job.id))


def _suggested_post(connection: Connection, job_id: int) -> int | None:
    return connection.scalar(select(suggestions.c.post_id).where(suggestions.c.job_id == job_id))


def write_suggestion(job: Job, board_id: int, text: str) -> int:
    """Insert one draft per job, even if the job is repeated; return the id of the post."""
    draft = {"board_id": board_id, "body": text, "state": "draft", "created_at": job.now}

    def write(connection: Connection) -> int:
        existing = _suggested_post(connection, job.id)
        if existing is not None:
            return existing
        post_id = _insert_post(connection, draft)
        connection.execute(insert(suggestions).values(job_id=job.id, post_id=post_id, written_at=job.now))
        return post_id

    return job.write(write)


def _insert_post(connection: Connection, row: dict[str, Any]) -> int:
    key = connection.execute(insert(posts).values(**row)).inserted_primary_key
    assert key is not None
    return int(key[0])


# --- nudges -----------------------------------------------------------------------------------------------


class QuietPeriod(NamedTuple):
    """A board is quiet if its last post is older than `after` and younger than `until`."""

    after: timedelta
    until: timedelta


def day_of(now: datetime) -> str:
    return f"{now:%Y-%m-%d}"


def quiet_boards(job: Job, quiet: QuietPeriod) -> Sequence[int]:
    query = _quiet(job, quiet).order_by(boards.c.id).limit(MAX_BOARDS)
    return job.read(lambda connection: connection.scalars(query).all())


def _quiet(job: Job, quiet: QuietPeriod) -> Select[int]:
    """Open boards whose last post is by a person and not recent, and that no other job has nudged today."""
    now = job.now
    on_board = and_(posts.c.board_id == boards.c.id, posts.c.state == "published")
    has_recent = select(posts.c.id).where(on_board, posts.c.published_at > now - quiet.after)
    last_author = (
        select(case((posts.c.published_at > now - quiet.until, posts.c.author_id)))
        .where(on_board)
        .order_by(posts.c.published_at.desc(), posts.c.id.desc())
        .limit(1)
    )
    is_own = and_(nudges.c.state == "asked", nudges.c.job_id == job.id)
    nudged = select(nudges.c.day).where(nudges.c.board_id == boards.c.id, nudges.c.day == day_of(now), ~is_own)
    return select(boards.c.id).where(
        boards.c.state == "open",
        ~has_recent.exists(),
        last_author.scalar_subquery().is_not(None),
        ~nudged.exists(),
    )


def claim_nudge(job: Job, board_id: int, quiet: QuietPeriod) -> str | None:
    """Return the day if this job may nudge the board today; None if it is not quiet or another job nudges it."""
    is_quiet = _quiet(job, quiet).where(boards.c.id == board_id)
    day = day_of(job.now)
    row = {"board_id": board_id, "day": day, "state": "asked", "job_id": job.id, "changed_at": job.now}
    owner = select(nudges.c.state, nudges.c.job_id).where(nudges.c.board_id == board_id, nudges.c.day == day)

    def claim(connection: Connection) -> bool:
        if connection.execute(is_quiet).first() is None:
            return False
        insert_missing(connection, nudges, row)
        return tuple(connection.execute(owner).one()) == ("asked", job.id)

    return day if job.write(claim) else None


def end_nudge(job: Job, board_id: int, day: str, text: str | None) -> bool:
    """Post the text, if any; return whether this job did. The row leaves `asked` once, together with the post."""
    now, n = job.now, nudges.c
    is_own = and_(n.board_id == board_id, n.day == day, n.state == "asked", n.job_id == job.id)
    end = update(nudges).where(is_own).values(state="posted" if text else "silent", changed_at=now)
    post = {"board_id": board_id, "body": text, "state": "published", "created_at": now, "published_at": now}

    def write(connection: Connection) -> bool:
        if not connection.execute(end).rowcount:
            return False
        if text:
            _insert_post(connection, post)
        return True

    return job.write(write)
