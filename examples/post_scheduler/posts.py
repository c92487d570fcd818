"""The handler of the post scheduler: it publishes the post of one row of post_schedule."""

import time

from pydantic import BaseModel
from sqlalchemy import text

from mayfly import Dead, Job, handler, setting

POST = text("SELECT title FROM post_details WHERE id = :id")
PUBLISH = text("INSERT INTO published_posts (post_schedule_id, title, channel) VALUES (:id, :title, :channel)")


class ScheduledPost(BaseModel):
    post_detail_id: int
    channel: str


@handler("publish_scheduled_post", max_attempts=3, timeout=30)
def publish_scheduled_post(job: Job, post: ScheduledPost) -> dict[str, str]:
    """Takes two seconds, like a call of a social network."""
    title = job.read(lambda connection: connection.execute(POST, {"id": post.post_detail_id}).scalar())
    if title is None:
        raise Dead(f"there is no post {post.post_detail_id}")
    time.sleep(float(setting("POST_SECONDS", "2")))
    with job.transaction() as connection:
        connection.execute(PUBLISH, {"id": job.row["id"], "title": title, "channel": post.channel})
    return {"title": title}
