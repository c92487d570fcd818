"""Boards and their posts: publish posts to channels, close and archive boards, each exactly once."""

from handlers.boards.payloads import BoardPayload, DuePosts, PostPayload
from handlers.outages import SURVIVES_OUTAGE
from mayfly import Job, handler

__handlers__ = ()  # all are declared here; the code that they need is imported when a job runs


@handler("publish_post", lane="publish_post", timeout=40, ack="each", **SURVIVES_OUTAGE)
def publish_post(job: Job, wanted: PostPayload) -> dict[str, str | None]:
    from handlers.boards.publication import publish

    return publish(job, wanted.post)


@handler("publish_due_posts", lane="publish_post")
def publish_due_posts(job: Job, _nothing: DuePosts) -> dict[str, int]:
    """Scheduled every minute."""
    from handlers.boards.publication import enqueue_due_posts

    return {"queued": enqueue_due_posts(job)}


@handler("close_board", lane="close_board")
def close_board(job: Job, wanted: BoardPayload) -> dict[str, int]:
    from handlers.boards.closure import close

    return close(job, wanted.board)


@handler("archive_board", lane="archive_board", requires=("BOARD_ARCHIVES",))
def archive_board(job: Job, wanted: BoardPayload) -> dict[str, int | str]:
    from handlers.boards.archive import archive

    return archive(job, wanted.board)
