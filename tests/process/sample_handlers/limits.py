"""Handlers with limits, which write down when they ran."""

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from mayfly import Job, concurrency, handler, rate

TWO = concurrency("door:{door}", 2)


def note(job: Job, began: float) -> None:
    """A line that no other process can break up."""
    with (Path(os.environ["MAYFLY_HOME"]) / "spans").open("a") as file:
        file.write(f"{job.id} {began} {time.time()}\n")


def may_end(job: Job) -> bool:
    """Not before the gate that its payload names is open."""
    gate = Path(os.environ["MAYFLY_HOME"], job.payload.get("gate", "."))
    return gate.exists()


@handler("pass_plain", limits=TWO)
def pass_plain(job: Job) -> None:
    began = time.time()
    while not may_end(job):
        time.sleep(0.01)
    time.sleep(job.payload["seconds"])
    note(job, began)


@handler("pass_thread", limits=TWO, threads=4)
def pass_thread(job: Job) -> None:
    pass_plain(job)


@handler("pass_async", limits=TWO)
async def pass_async(job: Job) -> None:
    began = time.time()
    while not may_end(job):
        await asyncio.sleep(0.01)
    await asyncio.sleep(job.payload["seconds"])
    note(job, began)


@handler("knock_plain", takes=TWO)
def knock_plain(job: Job) -> None:
    """Knows only inside which door it is."""
    job.take(f"door:{job.payload['door']}", or_snooze=True)
    pass_plain(job)


@handler("knock_thread", takes=TWO, threads=4)
def knock_thread(job: Job) -> None:
    knock_plain(job)


@handler("knock_async", takes=TWO)
async def knock_async(job: Job) -> None:
    job.take(f"door:{job.payload['door']}", or_snooze=True)
    await pass_async(job)


@handler("stay", limits=concurrency("room", 1))
def stay(job: Job) -> None:
    """Until its process is killed, or it is told to go."""
    home = Path(os.environ["MAYFLY_HOME"])
    (home / "reached").touch()
    while not (home / "go").exists():
        time.sleep(0.01)
    note(job, time.time())


@handler("mail", limits=rate("sender:{account}", 20, per="month"))
def mail(job: Job) -> None:
    note(job, time.time())


@handler("call", limits=rate("api", 1000, per="second"))
def call(job: Job) -> None:
    """Writes down how many units of its limit are used when it starts."""
    with closing(sqlite3.connect(os.environ["DATABASE_URL"].removeprefix("sqlite:///"))) as connection:
        [used] = connection.execute("SELECT used FROM mayfly_limits WHERE limit_key = 'api'").fetchone()
    with (Path(os.environ["MAYFLY_HOME"]) / "used").open("a") as file:
        file.write(f"{used}\n")
