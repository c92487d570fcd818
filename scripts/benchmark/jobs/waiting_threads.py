"""Jobs that wait, as plain functions in threads."""

import time

from mayfly import Job, handler
from scripts.benchmark.ledger import record

SIDE_BY_SIDE = 100  # all of a runner's share at once


@handler("wait_threads", threads=SIDE_BY_SIDE)
def wait_threads(job: Job) -> None:
    record(job.id)
    time.sleep(0.1)
