"""Jobs that wait, as plain functions in threads."""

import time
from typing import Any

from mayfly import Job, handler
from scripts.benchmark.ledger import record

SIDE_BY_SIDE: dict[str, Any] = {"threads": 100}  # all of a runner's share at once


@handler("wait_threads", **SIDE_BY_SIDE)
def wait_threads(job: Job) -> None:
    record(job.id)
    time.sleep(0.1)
