"""Publish one post, once: check that it is still scheduled, send it to its channel, store the result."""

from datetime import timedelta
from hashlib import sha256

from sqlalchemy import Connection, update

from handlers.boards import mastodon, webhook
from handlers.boards.channel import PostChannel, channel_of
from handlers.boards.tables import PostRow, due_posts, find_post, mark_published, posts
from handlers.http import ResponseTooLarge, ServiceUnavailable
from handlers.idempotency import DONE, HANDED_OVER, Effect, may_resend
from mayfly import Cancel, Dead, Job, Snooze, enqueue_many

PAGE_SIZE = 500
# Mastodon keeps an idempotency key for an hour: after that, the same key would publish the post again.
KEY_LIFETIMES = {"mastodon": timedelta(minutes=50)}
SENDERS = {"mastodon": mastodon.send, "webhook": webhook.send}


def enqueue_due_posts(job: Job) -> int:
    """Enqueue one job per due post; return how many."""
    queued = 0
    while found := job.write(lambda connection: _enqueue_page(connection, job)):
        queued += found
        if found < PAGE_SIZE:
            break
    return queued


def _enqueue_page(connection: Connection, job: Job) -> int:
    """The jobs and `queued_at` of their posts are committed together."""
    now = job.now
    ids = connection.scalars(due_posts(now, PAGE_SIZE)).all()
    if ids:
        connection.execute(update(posts).where(posts.c.id.in_(ids)).values(queued_at=now))
        jobs = ({"type": "publish_post", "payload": {"post": each}, "unique_key": f"post:{each}"} for each in ids)
        enqueue_many(jobs, connection=connection)
    return len(ids)


def publish(job: Job, post_id: int) -> dict[str, str | None]:
    post = find_post(job, post_id)
    if post is None:
        raise Cancel(f"there is no post {post_id}")
    if post.state == "published":
        return {"remote_id": post.remote_id}
    _check(job, post)
    remote_id = None if post.channel_id is None else _send(job, post)
    published = mark_published(post.id, job.now, remote_id)
    job.write(lambda connection: connection.execute(published))
    return {"remote_id": remote_id}


def _check(job: Job, post: PostRow) -> None:
    """The post or its board may have changed since the job was enqueued."""
    if post.state != "scheduled":
        raise Cancel(f"post {post.id} is {post.state}, not scheduled")
    if post.board_state != "open":
        raise Cancel(f"the board of post {post.id} is {post.board_state or 'missing'}")
    if post.publish_at is not None and post.publish_at > job.now:
        raise Snooze(until=post.publish_at, reason=f"post {post.id} is to be published then")


def _send(job: Job, post: PostRow) -> str:
    channel = channel_of(post)
    effect = Effect(job, "post", str(post.id))
    record = effect.load()
    if record.state == DONE:  # an earlier run ended before it updated the post
        return record.answer or ""
    first_tried_at = record.changed_at if record.state == HANDED_OVER else None
    if first_tried_at is not None and not may_resend(job, usual=_on_doubt(channel, job.now - first_tried_at)):
        raise Dead(f"handed over to {record.provider}, outcome unknown: held, because it may have been published")
    effect.hand_over(channel.host, record.state)
    if first_tried_at is not None:
        effect.keep_time(first_tried_at)
    try:
        remote_id = SENDERS[channel.kind](channel, post, idempotency_key(channel, post), job.now)
    except ResponseTooLarge:
        raise
    except (Dead, Snooze, ServiceUnavailable) as refusal:  # this try has published nothing
        if first_tried_at is None:
            effect.reopen(str(refusal))
        raise
    effect.complete(remote_id)
    return remote_id


def _on_doubt(channel: PostChannel, age: timedelta) -> str:
    """Resend while the channel still has the idempotency key of the first try."""
    return "resend" if age < KEY_LIFETIMES.get(channel.kind, timedelta.max) else "hold"


def idempotency_key(channel: PostChannel, post: PostRow) -> str:
    """The idempotency key: the same for all tries of a post, different for this post id in other installations."""
    named = f"{channel.url}\n{post.id}\n{post.created_at.isoformat()}"
    return f"post_{sha256(named.encode()).hexdigest()[:40]}"
