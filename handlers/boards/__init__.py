"""Boards and their posts: posts are published to channels, boards are closed and archived; each exactly once."""

from handlers.boards.payloads import BoardPayload, DuePosts, PostPayload
from mayfly import Job, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs


# Retried for a quarter of an hour: longer than most outages, and shorter than channels remember the idempotency key.
@handler("publish_post", lane="misc", timeout=40, ack="each", backoff_base=30)
def publish_post(job: Job, wanted: PostPayload) -> dict[str, str | None]:
    from handlers.boards.publication import publish

    return publish(job, wanted.post)


@handler("publish_due_posts", lane="misc")
def publish_due_posts(job: Job, _nothing: DuePosts) -> dict[str, int]:
    """By schedule, every minute."""
    from handlers.boards.publication import enqueue_due_posts

    return {"queued": enqueue_due_posts(job)}


@handler("close_board", lane="misc")
def close_board(job: Job, wanted: BoardPayload) -> dict[str, int]:
    from handlers.boards.closure import close

    return close(job, wanted.board)


@handler("archive_board", lane="misc", requires=("BOARD_ARCHIVES",))
def archive_board(job: Job, wanted: BoardPayload) -> dict[str, int | str]:
    from handlers.boards.archive import archive

    return archive(job, wanted.board)
