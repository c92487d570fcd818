"""Concurrent handlers, well and badly behaved, each as an `async def` and in threads."""

import asyncio
import os
import time
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

from pydantic import BaseModel

from mayfly import Cancel, Dead, Job, Retry, Snooze, enqueue, handler
from tests.process.sample_handlers.lazy_sqlalchemy import text

AN_HOUR = 3600
LEFTOVER: ContextVar[int] = ContextVar("LEFTOVER", default=0)


def home() -> Path:
    return Path(os.environ["MAYFLY_HOME"])


def begun_file(job: Job) -> Path:
    """One line per started job: of its type, or of the group in the payload."""
    return home() / f"begun-{job.payload.get('group', job.type)}"


def begin(job: Job) -> float:
    with begun_file(job).open("a") as file:
        file.write(f"{job.id}\n")
    return time.monotonic()


def may_end(job: Job) -> bool:
    """After the number of jobs in the payload has begun, and when the gate in the payload is open."""
    begun, gate = begun_file(job).read_text().count("\n"), home() / job.payload.get("gate", ".")
    return begun >= int(job.payload.get("together", 0)) and gate.exists()


def record(job: Job, began: float) -> None:
    """One line per finished run: job, process, begin and end."""
    with (home() / "spans").open("a") as file:
        file.write(f"{job.id} {os.getpid()} {began} {time.monotonic()}\n")


def seconds(job: Job) -> float:
    return float(job.payload.get("seconds", 0.2))


@handler("wait_async")
async def wait_async(job: Job) -> None:
    began = begin(job)
    try:
        while not may_end(job):
            await asyncio.sleep(0.01)
        await asyncio.sleep(seconds(job))
    finally:
        record(job, began)


@handler("wait_thread", threads=20)
def wait_thread(job: Job) -> None:
    began = begin(job)
    await_end(job)
    time.sleep(seconds(job))
    record(job, began)


def await_end(job: Job) -> None:
    while not may_end(job):
        time.sleep(0.01)


@handler("wait_few", threads=3)
def wait_few(job: Job) -> None:
    wait_thread(job)


@handler("wait_plain")
def wait_plain(job: Job) -> None:
    wait_thread(job)


# --- time -------------------------------------------------------------------------------------------------


@handler("limited_async", timeout=1)
async def limited_async(_job: Job) -> None:
    await asyncio.sleep(AN_HOUR)


@handler("brief_async", timeout=1.5)
async def brief_async(_job: Job) -> None:
    """Ends well within its timeout, unless another job blocks the loop."""
    await asyncio.sleep(0.05)


@handler("limited_thread", timeout=1, threads=20)
def limited_thread(_job: Job) -> None:
    """Sleeps in short steps, so that an exception can be raised."""
    while True:
        time.sleep(0.01)


@handler("stubborn_async", timeout=1)
async def stubborn_async(_job: Job) -> str:
    """Ignores the first interruption."""
    try:
        await asyncio.sleep(AN_HOUR)
    except asyncio.CancelledError:
        await asyncio.sleep(AN_HOUR)
    return "unreachable"


@handler("stubborn_thread", timeout=1, threads=20)
def stubborn_thread(job: Job) -> None:
    try:
        limited_thread(job)
    except BaseException:
        limited_thread(job)


@handler("blocked_async", timeout=1)
async def blocked_async(_job: Job) -> None:
    """Blocks the loop, in C."""
    time.sleep(AN_HOUR)


@handler("blocked_thread", timeout=1, threads=20)
def blocked_thread(_job: Job) -> None:
    """One long call in C: no exception can be raised in it."""
    time.sleep(AN_HOUR)


@handler("delegated_async", timeout=1)
async def delegated_async(_job: Job) -> None:
    """The task can be cancelled, the thread cannot; the interpreter would wait for the thread at exit."""
    await asyncio.to_thread(time.sleep, AN_HOUR)


@handler("endless_async")
async def endless_async(_job: Job) -> None:
    await asyncio.sleep(AN_HOUR)


@handler("endless_thread", threads=20)
def endless_thread(job: Job) -> None:
    limited_thread(job)


@handler("cleanup_async")
async def cleanup_async(job: Job) -> None:
    """Takes a while to clean up when it is interrupted, so it runs for the whole window even if it starts late."""
    try:
        await asyncio.sleep(AN_HOUR)
    finally:
        clean_at = time.monotonic() + job.payload["cleanup_seconds"]
        while time.monotonic() < clean_at:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


@handler("cleanup_thread", threads=20)
def cleanup_thread(job: Job) -> None:
    try:
        limited_thread(job)
    finally:
        clean_at = time.monotonic() + job.payload["cleanup_seconds"]
        while time.monotonic() < clean_at:
            with suppress(BaseException):
                time.sleep(0.01)


@handler("stuck_thread", threads=20)
def stuck_thread(_job: Job) -> None:
    time.sleep(AN_HOUR)


@handler("slow_answer_async", timeout=1)
async def slow_answer_async(_job: Job) -> str:
    """Returns a result when it is interrupted."""
    try:
        await asyncio.sleep(AN_HOUR)
    except asyncio.CancelledError:
        return "just in time"
    return "unreachable"


@handler("slow_answer_thread", timeout=1, threads=20)
def slow_answer_thread(job: Job) -> str:
    try:
        limited_thread(job)
    except BaseException:
        return "just in time"
    return "unreachable"


# --- crashes ----------------------------------------------------------------------------------------------


@handler("poison_async")
async def poison_async(_job: Job) -> None:
    await asyncio.sleep(0.1)
    os._exit(3)


@handler("poison_thread", threads=20)
def poison_thread(_job: Job) -> None:
    time.sleep(0.1)
    os._exit(3)


# --- endings ----------------------------------------------------------------------------------------------


class Ending(BaseModel):
    ending: str


ENDINGS: dict[str, BaseException] = {
    "snooze": Snooze(after=AN_HOUR),
    "cancel": Cancel("no longer wanted"),
    "give up": Dead("no such customer"),
    "come back": Retry("the other side is busy", after=AN_HOUR),
    "fail": RuntimeError("failed"),
    "quit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError("by itself"),
}


@handler("ending_async")
async def ending_async(_job: Job, payload: Ending) -> dict[str, str]:
    await asyncio.sleep(0)
    if payload.ending in ENDINGS:
        raise ENDINGS[payload.ending]
    return {"ending": payload.ending}


@handler("ending_thread", threads=20)
def ending_thread(_job: Job, payload: Ending) -> dict[str, str]:
    if payload.ending in ENDINGS:
        raise ENDINGS[payload.ending]
    return {"ending": payload.ending}


async def quit_at_once() -> None:
    raise SystemExit(3)


@handler("parent_async")
async def parent_async(_job: Job) -> None:
    """A task of its own exits, which would end the loop."""
    await asyncio.create_task(quit_at_once())


@handler("leftover_thread", threads=1)
def leftover_thread(_job: Job) -> int:
    """How many earlier runs have left a value in the context of this one."""
    found = LEFTOVER.get()
    LEFTOVER.set(found + 1)
    return found


async def coroutine(_job: Job) -> None:
    await asyncio.sleep(0)


@handler("wrapped")
def wrapped(job: Job) -> object:
    """What a decorator without support for `async def` returns."""
    return coroutine(job)


# --- the database -----------------------------------------------------------------------------------------


@handler("enqueue_async")
async def enqueue_async(job: Job) -> None:
    await asyncio.sleep(0)
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)


@handler("enqueue_thread", threads=20)
def enqueue_thread(job: Job) -> None:
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)


@handler("insert_async")
async def insert_async(job: Job) -> None:
    with job.transaction():
        await asyncio.sleep(0)


@handler("insert_thread", threads=20)
def insert_thread(job: Job) -> dict[str, int]:
    """A row, a job and a result, all in the job's transaction; with `fail` it raises afterwards."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_rows (job_id) VALUES (:id)"), {"id": job.id})
        enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)
        begin(job)
        await_end(job)
    if job.payload.get("fail"):
        raise RuntimeError("failed after the block")
    return {"inserted": job.id}


@handler("insert_limited", threads=20, timeout=1)
def insert_limited(job: Job) -> None:
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_rows (job_id) VALUES (:id)"), {"id": job.id})
        limited_thread(job)


@handler("ack_each_async", ack="each")
async def ack_each_async(job: Job) -> None:
    await wait_async(job)


@handler("ack_each_thread", ack="each", threads=20)
def ack_each_thread(job: Job) -> None:
    wait_thread(job)
