"""Boards and their posts: published to other places, closed, archived; nothing is told or published twice."""

from handlers.boards.payloads import Board, Nothing, Post
from mayfly import Job, handler

__handlers__ = ()  # all are here; what they need is imported by the runner that has such a job


# Tried for a quarter of an hour: longer than most servers are away, and well before they forget the post's key.
@handler("publish_post", lane="misc", timeout=40, ack="each", backoff_base=30)
def publish_post(job: Job, post: Post) -> dict[str, str | None]:
    from handlers.boards.publishing import publish

    return publish(job, post.post)


@handler("publish_due_posts", lane="misc")
def publish_due_posts(job: Job, _nothing: Nothing) -> dict[str, int]:
    """By schedule, every minute."""
    from handlers.boards.publishing import queue_due

    return {"queued": queue_due(job)}


@handler("close_board", lane="misc")
def close_board(job: Job, board: Board) -> dict[str, int]:
    from handlers.boards.closing import close

    return close(job, board.board)


@handler("archive_board", lane="misc", requires=("BOARD_ARCHIVES",))
def archive_board(job: Job, board: Board) -> dict[str, int | str]:
    from handlers.boards.archiving import archive

    return archive(job, board.board)
