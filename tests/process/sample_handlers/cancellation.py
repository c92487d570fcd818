"""Handlers that check for a cancellation request, and handlers that do not."""

import asyncio
import os
import time
from pathlib import Path

from mayfly import Cancel, Job, handler

MAX_SECONDS = 40.0


def home() -> Path:
    return Path(os.environ["MAYFLY_HOME"])


def end_if_cancelled(job: Job) -> None:
    if job.cancelled:
        raise Cancel("seen after a while")


@handler("wait_for_cancel")
def wait_for_cancel(job: Job) -> None:
    (home() / "reached").touch()
    ends = time.monotonic() + MAX_SECONDS
    while time.monotonic() < ends:
        end_if_cancelled(job)
        time.sleep(0.01)


@handler("wait_for_cancel_thread", threads=2)
def wait_for_cancel_thread(job: Job) -> None:
    wait_for_cancel(job)


@handler("wait_for_cancel_async")
async def wait_for_cancel_async(job: Job) -> None:
    (home() / "reached").touch()
    ends = time.monotonic() + MAX_SECONDS
    while time.monotonic() < ends:
        end_if_cancelled(job)
        await asyncio.sleep(0.01)


def record() -> None:
    with (home() / "failed").open("a") as file:
        file.write("x")
    (home() / "reached").touch()


@handler("gated_failure", backoff_base=0.001)
def gated_failure(_job: Job) -> None:
    record()
    while not (home() / "go").exists():
        time.sleep(0.01)
    raise RuntimeError("failed")


@handler("gated_failure_async", backoff_base=0.001)
async def gated_failure_async(_job: Job) -> None:
    record()
    while not (home() / "go").exists():
        await asyncio.sleep(0.01)
    raise RuntimeError("failed")
