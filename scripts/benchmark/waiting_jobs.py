"""Handlers that wait for 100 ms. In a separate module: importing asyncio would slow down the other benchmarks."""

import asyncio
import time

from mayfly import Job, handler
from scripts.benchmark.ledger import record


@handler("wait_async")
async def wait_async(job: Job) -> None:
    record(job.id)
    await asyncio.sleep(0.1)


@handler("wait_threads", threads=100)
def wait_threads(job: Job) -> None:
    record(job.id)
    time.sleep(0.1)
