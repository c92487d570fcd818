"""The SQL of this area: boards and their posts as the model is shown them, and what it wrote."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mayfly import Job, utc_from_driver

PAGE = 500  # posts
SHOWN_LENGTH = 1000  # characters of each of the latest posts
LATEST = 30
MOST_BOARDS = 100  # a round; the others are found by the next one

TITLE = "SELECT title FROM app_boards WHERE id = :board_id AND state <> 'archived'"
COUNT = "SELECT COUNT(*) FROM app_posts WHERE board_id = :board_id AND state = 'published'"
PAGE_OF_POSTS = (
    "SELECT id, author_id, published_at, SUBSTR(body, CASE WHEN id = :id THEN :offset + 1 ELSE 1 END, :most)"
    " FROM app_posts WHERE board_id = :board_id AND state = 'published' AND id >= :id ORDER BY id LIMIT :page"
)
LATEST_POSTS = (
    "SELECT id, author_id, published_at, SUBSTR(body, 1, :most) FROM app_posts"
    " WHERE board_id = :board_id AND state = 'published' ORDER BY published_at DESC, id DESC LIMIT :page"
)
SUMMARY = ("board_id", "summary", "posts", "job_id", "written_at")
SUGGESTED = "SELECT post_id FROM app_suggestions WHERE job_id = :job_id"
POST = ("board_id", "author_id", "body", "state", "created_at", "published_at")

# Silent since, but not for ever; and the last who spoke was a person: nobody nudges an empty room day after day.
QUIET = (
    "app_boards.state = 'open' AND NOT EXISTS (SELECT 1 FROM app_posts WHERE app_posts.board_id = app_boards.id"
    " AND app_posts.state = 'published' AND app_posts.published_at > :quiet_since)"
    " AND (SELECT CASE WHEN app_posts.published_at > :forgotten_since THEN app_posts.author_id END FROM app_posts"
    " WHERE app_posts.board_id = app_boards.id AND app_posts.state = 'published'"
    " ORDER BY app_posts.published_at DESC, app_posts.id DESC LIMIT 1) IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM app_nudges WHERE app_nudges.board_id = app_boards.id AND app_nudges.day = :day"
    " AND NOT (app_nudges.state = 'asked' AND app_nudges.job_id = :job_id))"
)
QUIET_BOARDS = f"SELECT id FROM app_boards WHERE {QUIET} ORDER BY id LIMIT :most"
IS_QUIET = f"SELECT id FROM app_boards WHERE {QUIET} AND id = :board_id"
NUDGE = ("board_id", "day", "state", "job_id", "changed_at")
WHOSE_NUDGE = "SELECT state, job_id FROM app_nudges WHERE board_id = :board_id AND day = :day"
END_NUDGE = (
    "UPDATE app_nudges SET state = :state, changed_at = :changed_at"
    " WHERE board_id = :board_id AND day = :day AND state = 'asked' AND job_id = :job_id"
)


class Post(NamedTuple):
    """As much of it as is shown to the model. People are numbers there: their names are none of its business."""

    id: int
    author_id: int | None
    published_at: datetime | None
    text: str

    def shown(self, text: str | None = None) -> dict[str, Any]:
        author = "co-facilitator" if self.author_id is None else f"person {self.author_id}"
        at = f"{self.published_at:%Y-%m-%d %H:%M}" if self.published_at else ""
        return {"author": author, "at": at, "text": self.text if text is None else text}


def title_of(job: Job, board_id: int) -> str | None:
    found = job.read(lambda connection: connection.execute(TITLE, {"board_id": board_id}).scalar())
    return None if found is None else str(found)


def count_posts(job: Job, board_id: int) -> int:
    return int(job.read(lambda connection: connection.execute(COUNT, {"board_id": board_id}).scalar()))


def posts_from(job: Job, board_id: int, post_id: int, offset: int, most: int) -> list[Post]:
    """In the order of their ids, the first from that character on, each with so many characters at most."""
    asked = {"board_id": board_id, "id": post_id, "offset": offset, "most": most, "page": PAGE}
    return _posts(job, PAGE_OF_POSTS, asked)


def latest_posts(job: Job, board_id: int) -> list[Post]:
    """The newest first."""
    return _posts(job, LATEST_POSTS, {"board_id": board_id, "most": SHOWN_LENGTH, "page": LATEST})


def _posts(job: Job, statement: str, asked: dict[str, Any]) -> list[Post]:
    rows = job.read(lambda connection: connection.execute(statement, asked).all())
    return [Post(id, author, at and utc_from_driver(at), text) for id, author, at, text in rows]


def write_summary(job: Job, board_id: int, summary: str, posts: int) -> None:
    row = {"board_id": board_id, "summary": summary, "posts": posts, "job_id": job.id, "written_at": job.now}

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.upsert("app_board_summaries", ("board_id",), SUMMARY), row)

    job.write(write)


def suggested_by(job: Job) -> int | None:
    found = job.read(lambda connection: connection.execute(SUGGESTED, {"job_id": job.id}).scalar())
    return None if found is None else int(found)


def write_suggestion(job: Job, board_id: int, text: str) -> int:
    """One draft a job, however often it is written: the row that names it is in the same transaction."""
    post = {"board_id": board_id, "author_id": None, "body": text, "state": "draft", "created_at": job.now}

    def write(connection: Any) -> int:
        already = connection.execute(SUGGESTED, {"job_id": job.id}).scalar()
        if already is not None:
            return int(already)
        post_id = insert_post(connection, {**post, "published_at": None})
        row = {"job_id": job.id, "post_id": post_id}
        connection.execute(connection.dialect.insert("app_suggestions", tuple(row)), row)
        return post_id

    return job.write(write)


def insert_post(connection: Any, row: dict[str, Any]) -> int:
    statement = connection.dialect.insert("app_posts", POST)
    if connection.dialect.has_insert_returning:
        return int(connection.execute(f"{statement} RETURNING id", row).scalar())
    return int(connection.execute(statement, row).lastrowid)


class Quiet(NamedTuple):
    """What makes a board one that went quiet."""

    after: timedelta
    until: timedelta

    def asked(self, job: Job) -> dict[str, Any]:
        now = job.now
        return {
            "quiet_since": now - self.after, "forgotten_since": now - self.until, "day": day_of(now),
            "job_id": job.id,
        }  # fmt: skip


def day_of(now: datetime) -> str:
    return f"{now:%Y-%m-%d}"


def quiet_boards(job: Job, quiet: Quiet) -> list[int]:
    asked = {**quiet.asked(job), "most": MOST_BOARDS}
    return [int(each) for each in job.read(lambda connection: connection.execute(QUIET_BOARDS, asked).scalars())]


def claim_nudge(job: Job, board_id: int, quiet: Quiet) -> str | None:
    """The day whose nudge of this board is ours to decide; None if it is not quiet, or another's."""
    asked = {**quiet.asked(job), "board_id": board_id}
    row = {"board_id": board_id, "day": asked["day"], "state": "asked", "job_id": job.id, "changed_at": job.now}

    def claim(connection: Any) -> bool:
        if connection.execute(IS_QUIET, asked).first() is None:
            return False
        connection.execute(connection.dialect.insert_missing("app_nudges", ("board_id", "day"), NUDGE), row)
        whose = connection.execute(WHOSE_NUDGE, {"board_id": board_id, "day": row["day"]}).first()
        return tuple(whose) == ("asked", job.id)

    return asked["day"] if job.write(claim) else None


def end_nudge(job: Job, board_id: int, day: str, text: str | None) -> bool:
    """Post it, or stay silent. The row leaves `asked` once, and the post comes with that: whether it was now."""
    now = job.now
    state = "posted" if text else "silent"
    row = {"board_id": board_id, "day": day, "job_id": job.id, "changed_at": now, "state": state}
    post = {"board_id": board_id, "author_id": None, "body": text, "state": "published", "created_at": now}

    def end(connection: Any) -> bool:
        if not connection.execute(END_NUDGE, row).rowcount:
            return False
        if text:
            insert_post(connection, {**post, "published_at": now})
        return True

    return job.write(end)
