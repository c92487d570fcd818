"""Handlers that take longer than a window: imports in steps, and some that misbehave.

A light module: the time of its import is part of the window.
"""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from mayfly import Job, handler

AN_HOUR = 3600


def home() -> Path:
    return Path(os.environ["MAYFLY_HOME"])


def import_row(job: Job) -> bool:
    """One step: the next row, then the checkpoint; False if there is none left."""
    row, rows = job.state or 0, job.payload["rows"]
    if row == rows:
        return False
    with (home() / "rows").open("a") as file:
        file.write(f"{row}\n")
    job.progress(row + 1, rows, "rows")
    job.checkpoint(row + 1)
    return True


@handler("import_plain")
def import_plain(job: Job) -> None:
    while import_row(job):
        time.sleep(job.payload["seconds"])


@handler("import_thread", threads=2)
def import_thread(job: Job) -> None:
    import_plain(job)


@handler("import_async")
async def import_async(job: Job) -> None:
    while import_row(job):
        await asyncio.sleep(job.payload["seconds"])


@handler("import_limited", timeout=2)
def import_limited(job: Job) -> None:
    import_plain(job)


@handler("step_then_hang")
def step_then_hang(job: Job) -> None:
    job.checkpoint("begun")
    time.sleep(AN_HOUR)


@handler("step_then_ignore")
def step_then_ignore(job: Job) -> None:
    """Can only be killed."""
    job.checkpoint("begun")
    while True:
        try:
            time.sleep(AN_HOUR)
        except BaseException:
            continue


@handler("step_then_crash")
def step_then_crash(job: Job) -> None:
    """Makes progress each time, but never finishes a run."""
    job.checkpoint((job.state or 0) + 1)
    os.kill(os.getpid(), signal.SIGKILL)


@handler("slow_cleanup")
def slow_cleanup(_job: Job) -> None:
    """Takes a while to clean up when it is interrupted, so it runs for the whole window even if it starts late."""
    try:
        time.sleep(AN_HOUR)
    finally:
        clean_at = time.monotonic() + 1.2  # after two seconds its runner is killed
        while time.monotonic() < clean_at:
            with suppress(BaseException):
                time.sleep(0.01)


@handler("no_progress")
def no_progress(job: Job) -> None:
    while True:
        job.checkpoint("here")
        time.sleep(0.1)


@handler("nap")
def nap(job: Job) -> None:
    time.sleep(job.payload["seconds"])


@handler("nap_thread", threads=1)
def nap_thread(job: Job) -> None:
    nap(job)


@handler("nap_async")
async def nap_async(job: Job) -> None:
    await asyncio.sleep(job.payload["seconds"])


@handler("nap_timed", timeout=6)
def nap_timed(job: Job) -> None:
    nap(job)


@handler("short_task")
def short_task(job: Job) -> None:
    nap(job)


@handler("noop")
def noop(_job: Job) -> None:
    """Nothing."""
