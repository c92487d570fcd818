"""The handlers that are measured. They only record that they ran."""

import time

from mayfly import Job, handler
from scripts.benchmark.ledger import record


@handler("nothing")
def nothing(job: Job) -> None:
    record(job.id)


@handler("nothing_row")
def nothing_row(job: Job) -> None:
    record(job.row["id"])


@handler("nothing_each", ack="each")
def nothing_each(job: Job) -> None:
    record(job.id)


@handler("waited")
def waited(job: Job) -> float:
    """Seconds since it was enqueued; producer and runner share one clock."""
    return time.time() - float(job.payload["at"])
