"""The way of one post: whether it is still to be published, through whom, and never twice."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from handlers.boards import mastodon, webhook
from handlers.boards.channel import Channel, channel_of
from handlers.boards.tables import DUE, HANDED_OVER_AT, KEEP_AGE, PUBLISHED, QUEUED, PostRow, find_post
from handlers.effects import DONE, HANDED_OVER, Effect, may_resend
from handlers.outside import TooMuch
from mayfly import Cancel, Dead, Job, Snooze, enqueue_many, utc_from_driver

PAGE = 500
# Mastodon forgets a key after an hour: from then on the same key would publish the post a second time.
KEY_LIVES = {"mastodon": timedelta(minutes=50)}
SENDERS = {"mastodon": mastodon.send, "webhook": webhook.send}


def queue_due(job: Job) -> int:
    """Let each post that is due become a job; how many there were."""
    queued = 0
    while found := job.write(lambda connection: _queue_page(connection, job)):
        queued += found
        if found < PAGE:
            break
    return queued


def _queue_page(connection: Any, job: Job) -> int:
    """The jobs and the note that they are there commit together."""
    ids = connection.execute(DUE, {"now": job.now, "most": PAGE}).scalars()
    if ids:
        connection.execute(QUEUED, {"now": job.now}, ids)
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
    values = {"id": post.id, "now": job.now, "remote_id": remote_id}
    job.write(lambda connection: connection.execute(PUBLISHED, values))
    return {"remote_id": remote_id}


def _check(job: Job, post: PostRow) -> None:
    """Much may have happened since it was scheduled."""
    if post.state != "scheduled":
        raise Cancel(f"post {post.id} is not scheduled, but {post.state}")
    if post.board_state != "open":
        raise Cancel(f"the board of post {post.id} is {post.board_state or 'gone'}")
    if post.publish_at is not None and post.publish_at > job.now:
        raise Snooze(until=post.publish_at)


def _send(job: Job, post: PostRow) -> str:
    channel = channel_of(post)
    effect = Effect(job, "post", str(post.id))
    entry = effect.look()
    if entry.state == DONE:  # its run ended before it came to tell the post
        return entry.answer or ""
    doubtful_since = _handed_over_at(job, effect) if entry.state == HANDED_OVER else None
    if doubtful_since is not None and not may_resend(job, usual=_usual(channel, job.now - doubtful_since)):
        raise Dead(f"handed over to {entry.provider}, answer unknown: held, because it may have been published")
    effect.hand_over(channel.who, entry.state)
    if doubtful_since is not None:  # the receiver counts from the first try
        age = {"key": effect.key, "at": doubtful_since}
        job.write(lambda connection: connection.execute(KEEP_AGE, age))
    try:
        remote_id = SENDERS[channel.kind](channel, post, once_key(channel, post), job.now)
    except TooMuch:
        raise
    except (Dead, Snooze) as refusal:  # an answer that says no: this try has published nothing
        if doubtful_since is None:
            effect.reopen(str(refusal))
        raise
    effect.done(remote_id)
    return remote_id


def _handed_over_at(job: Job, effect: Effect) -> datetime:
    found = job.read(lambda connection: connection.execute(HANDED_OVER_AT, {"key": effect.key}).scalar())
    return utc_from_driver(found)


def _usual(channel: Channel, age: timedelta) -> str:
    """The receiver knows the key of what it has already got, as long as it keeps it."""
    return "resend" if age < KEY_LIVES.get(channel.kind, timedelta.max) else "hold"


def once_key(channel: Channel, post: PostRow) -> str:
    """The same for all tries of one post, and another one for the post of that number in another installation."""
    named = f"{channel.url}\n{post.id}\n{post.created_at.isoformat()}"
    return f"post_{sha256(named.encode()).hexdigest()[:40]}"
