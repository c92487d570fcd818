"""Jobs that wait, as coroutines."""

import asyncio

from mayfly import Job, handler
from scripts.benchmark.ledger import record


@handler("wait_async")
async def wait_async(job: Job) -> None:
    record(job.id)
    await asyncio.sleep(0.1)
