"""Jobs that do as much as the bare loop does: they note that they ran."""

import time

from mayfly import Job, handler
from scripts.benchmark.ledger import record


@handler("nothing")
def nothing(job: Job) -> None:
    record(job.id)


@handler("nothing_each", ack="each")
def nothing_each(job: Job) -> None:
    """Each with its own commit."""
    record(job.id)


@handler("nap")
def nap(job: Job) -> None:
    """Long enough that no runner takes a second batch before the last one has its first."""
    record(job.id)
    time.sleep(0.2)
