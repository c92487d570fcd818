"""A job that tells how long it waited, by the clock of the host that enqueued it."""

import time

from mayfly import Job, handler


@handler("waited")
def waited(job: Job) -> float:
    return time.time() - float(job.payload["at"])
