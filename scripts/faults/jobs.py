"""The handlers of the torture test. Each records its start with the job id and the fencing token."""

import asyncio
import os
import time
import zlib

from sqlalchemy import text

from mayfly import Job, concurrency, handler
from scripts.faults.history import note

LIMIT = 3
LIMIT_KEY = "torture"
LEDGER = text("INSERT INTO torture_ledger (job_id) VALUES (:job_id)")


def start(job: Job) -> None:
    note("start", job=job.id, token=job.claims, host=os.environ["HOST_NAME"])


def chance(job: Job, percent: int) -> bool:
    """The same result for the same attempt in every runner."""
    return zlib.crc32(f"{job.id}:{job.attempt}".encode()) % 100 < percent


@handler("torture_plain", lane="fast", max_attempts=4)
def plain(job: Job) -> None:
    start(job)


@handler("torture_each", lane="fast", max_attempts=4, ack="each")
def each(job: Job) -> None:
    start(job)


@handler("torture_ledger", lane="ledger", max_attempts=6)
def ledger(job: Job) -> None:
    """An effect in the same database: exactly one row per job."""
    start(job)
    with job.transaction() as connection:
        connection.execute(LEDGER, {"job_id": job.id})


@handler("torture_flaky", lane="fast", max_attempts=4)
def flaky(job: Job) -> None:
    start(job)
    if chance(job, 30):
        note("failure", job=job.id, token=job.claims)
        raise RuntimeError("failed on purpose")


@handler("torture_slow", lane="slow", max_attempts=4)
def slow(job: Job) -> None:
    start(job)
    time.sleep(0.1 + (job.id % 5) * 0.1)


@handler("torture_limited", lane="slow", max_attempts=4, limits=concurrency(LIMIT_KEY, LIMIT))
def limited(job: Job) -> None:
    """A run that never leaves was killed: the guard and SIGTERM raise exceptions, which run the `finally`."""
    start(job)
    note("enter", job=job.id, token=job.claims, dispatcher=os.getppid())
    try:
        time.sleep(0.1)
    finally:
        note("leave", job=job.id, token=job.claims)


@handler("torture_async", lane="async", max_attempts=4)
async def asynchronous(job: Job) -> None:
    start(job)
    await asyncio.sleep(0.05)


@handler("torture_thread", lane="threads", max_attempts=4, threads=5)
def threaded(job: Job) -> None:
    start(job)
    with job.transaction() as connection:
        connection.execute(LEDGER, {"job_id": job.id})


@handler("torture_each_thread", lane="threads", max_attempts=4, threads=5, ack="each")
def each_in_thread(job: Job) -> None:
    start(job)


TYPES = ("plain", "each", "ledger", "flaky", "slow", "limited", "async", "thread", "each_thread")
IN_LEDGER = ("torture_ledger", "torture_thread")
