"""Handlers that look whether somebody wants their job to end, and handlers that do not care."""

import asyncio
import os
import time
from pathlib import Path

from mayfly import Cancel, Job, handler

PATIENCE_SECONDS = 40.0


def home() -> Path:
    return Path(os.environ["MAYFLY_HOME"])


def looks(job: Job) -> None:
    if job.cancelled:
        raise Cancel("seen after a while")


@handler("patient")
def patient(job: Job) -> None:
    (home() / "reached").touch()
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends:
        looks(job)
        time.sleep(0.01)


@handler("patient_thread", threads=2)
def patient_thread(job: Job) -> None:
    patient(job)


@handler("patient_async")
async def patient_async(job: Job) -> None:
    (home() / "reached").touch()
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends:
        looks(job)
        await asyncio.sleep(0.01)


def note() -> None:
    with (home() / "stumbled").open("a") as file:
        file.write("x")
    (home() / "reached").touch()


@handler("stumble_once_told", backoff_base=0.001)
def stumble_once_told(_job: Job) -> None:
    note()
    while not (home() / "go").exists():
        time.sleep(0.01)
    raise RuntimeError("stumbled")


@handler("stumble_async", backoff_base=0.001)
async def stumble_async(_job: Job) -> None:
    note()
    while not (home() / "go").exists():
        await asyncio.sleep(0.01)
    raise RuntimeError("stumbled")
