"""Handlers with limits that record when they ran."""

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from mayfly import Job, concurrency, handler, rate

TWO = concurrency("vendor:{vendor}", 2)


def record(job: Job, began: float) -> None:
    """A line that no other process can split."""
    with (Path(os.environ["MAYFLY_HOME"]) / "spans").open("a") as file:
        file.write(f"{job.id} {began} {time.time()}\n")


def may_end(job: Job) -> bool:
    """When the gate in the payload is open."""
    gate = Path(os.environ["MAYFLY_HOME"], job.payload.get("gate", "."))
    return gate.exists()


@handler("use_plain", limits=TWO)
def use_plain(job: Job) -> None:
    began = time.time()
    while not may_end(job):
        time.sleep(0.01)
    time.sleep(job.payload["seconds"])
    record(job, began)


@handler("use_thread", limits=TWO, threads=4)
def use_thread(job: Job) -> None:
    use_plain(job)


@handler("use_async", limits=TWO)
async def use_async(job: Job) -> None:
    began = time.time()
    while not may_end(job):
        await asyncio.sleep(0.01)
    await asyncio.sleep(job.payload["seconds"])
    record(job, began)


@handler("take_plain", takes=TWO)
def take_plain(job: Job) -> None:
    """Takes the limit in the handler, because only the handler knows its key."""
    job.take(f"vendor:{job.payload['vendor']}", or_snooze=True)
    use_plain(job)


@handler("take_thread", takes=TWO, threads=4)
def take_thread(job: Job) -> None:
    take_plain(job)


@handler("take_async", takes=TWO)
async def take_async(job: Job) -> None:
    job.take(f"vendor:{job.payload['vendor']}", or_snooze=True)
    await use_async(job)


@handler("hold_slot", limits=concurrency("room", 1))
def hold_slot(job: Job) -> None:
    """Until its process is killed, or the gate opens."""
    home = Path(os.environ["MAYFLY_HOME"])
    (home / "reached").touch()
    while not (home / "go").exists():
        time.sleep(0.01)
    record(job, time.time())


@handler("mail", limits=rate("sender:{account}", 20, per="month"))
def mail(job: Job) -> None:
    record(job, time.time())


@handler("call", limits=rate("api", 1000, per="second"))
def call(job: Job) -> None:
    """Records how many units of its limit are used when it starts."""
    with closing(sqlite3.connect(os.environ["DATABASE_URL"].removeprefix("sqlite:///"))) as connection:
        [used] = connection.execute("SELECT used FROM mayfly_limits WHERE limit_key = 'api'").fetchone()
    with (Path(os.environ["MAYFLY_HOME"]) / "used").open("a") as file:
        file.write(f"{used}\n")
