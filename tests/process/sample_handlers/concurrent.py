"""Handlers that run side by side, well and badly behaved, each as an `async def` and in threads."""

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
HAUNTED: ContextVar[int] = ContextVar("HAUNTED", default=0)


def home() -> Path:
    return Path(os.environ["MAYFLY_HOME"])


def party(job: Job) -> Path:
    """Where those are counted who have begun: all of a type, if the payload names no other party."""
    return home() / f"begun-{job.payload.get('party', job.type)}"


def begin(job: Job) -> float:
    with party(job).open("a") as file:
        file.write(f"{job.id}\n")
    return time.monotonic()


def may_end(job: Job) -> bool:
    """Not before so many of its party have begun, nor before the gate that its payload names is open."""
    begun, gate = party(job).read_text().count("\n"), home() / job.payload.get("gate", ".")
    return begun >= int(job.payload.get("together", 0)) and gate.exists()


def note(job: Job, began: float) -> None:
    """One line a run, when it has ended: job, process, begin and end."""
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
        note(job, began)


@handler("wait_thread", threads=20)
def wait_thread(job: Job) -> None:
    began = begin(job)
    await_end(job)
    time.sleep(seconds(job))
    note(job, began)


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
    """In Python again and again, where an exception can be raised."""
    while True:
        time.sleep(0.01)


@handler("deaf_async", timeout=1)
async def deaf_async(_job: Job) -> str:
    """Hears at the second time of asking."""
    try:
        await asyncio.sleep(AN_HOUR)
    except asyncio.CancelledError:
        await asyncio.sleep(AN_HOUR)
    return "unreachable"


@handler("deaf_thread", timeout=1, threads=20)
def deaf_thread(job: Job) -> None:
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
    """The task can be cancelled, the thread cannot; the interpreter would wait for that at its end."""
    await asyncio.to_thread(time.sleep, AN_HOUR)


@handler("endless_async")
async def endless_async(_job: Job) -> None:
    await asyncio.sleep(AN_HOUR)


@handler("endless_thread", threads=20)
def endless_thread(job: Job) -> None:
    limited_thread(job)


@handler("tidy_async")
async def tidy_async(job: Job) -> None:
    """Takes a moment to tidy up when it is interrupted, however often it is told: so much it may begin late."""
    try:
        await asyncio.sleep(AN_HOUR)
    finally:
        tidied_at = time.monotonic() + job.payload["tidying"]
        while time.monotonic() < tidied_at:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


@handler("tidy_thread", threads=20)
def tidy_thread(job: Job) -> None:
    try:
        limited_thread(job)
    finally:
        tidied_at = time.monotonic() + job.payload["tidying"]
        while time.monotonic() < tidied_at:
            with suppress(BaseException):
                time.sleep(0.01)


@handler("stuck_thread", threads=20)
def stuck_thread(_job: Job) -> None:
    time.sleep(AN_HOUR)


@handler("slow_answer_async", timeout=1)
async def slow_answer_async(_job: Job) -> str:
    """Has its answer when it is interrupted, and gives it."""
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


class Wish(BaseModel):
    ending: str


ENDINGS: dict[str, BaseException] = {
    "snooze": Snooze(after=AN_HOUR),
    "cancel": Cancel("nobody wants it any more"),
    "give up": Dead("no such customer"),
    "come back": Retry("the other side is busy", after=AN_HOUR),
    "fail": RuntimeError("stumbled"),
    "quit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError("by itself"),
}


@handler("wish_async")
async def wish_async(_job: Job, wish: Wish) -> dict[str, str]:
    await asyncio.sleep(0)
    if wish.ending in ENDINGS:
        raise ENDINGS[wish.ending]
    return {"ending": wish.ending}


@handler("wish_thread", threads=20)
def wish_thread(_job: Job, wish: Wish) -> dict[str, str]:
    if wish.ending in ENDINGS:
        raise ENDINGS[wish.ending]
    return {"ending": wish.ending}


async def quit_at_once() -> None:
    raise SystemExit(3)


@handler("parent_async")
async def parent_async(_job: Job) -> None:
    """A task of its own quits, which would end the loop."""
    await asyncio.create_task(quit_at_once())


@handler("haunted_thread", threads=1)
def haunted_thread(_job: Job) -> int:
    """How many runs have left their mark on this one."""
    found = HAUNTED.get()
    HAUNTED.set(found + 1)
    return found


async def really(_job: Job) -> None:
    await asyncio.sleep(0)


@handler("wrapped")
def wrapped(job: Job) -> object:
    """What a decorator makes of an `async def` if it does not know about those."""
    return really(job)


# --- the database -----------------------------------------------------------------------------------------


@handler("breed_async")
async def breed_async(job: Job) -> None:
    await asyncio.sleep(0)
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)


@handler("breed_thread", threads=20)
def breed_thread(job: Job) -> None:
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)


@handler("book_async")
async def book_async(job: Job) -> None:
    with job.transaction():
        await asyncio.sleep(0)


@handler("book_thread", threads=20)
def book_thread(job: Job) -> dict[str, int]:
    """A row, another job and a result, all in the job's transaction; whatever the payload says comes after that."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_ledger (job_id) VALUES (:id)"), {"id": job.id})
        enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)
        begin(job)
        await_end(job)
    if job.payload.get("fail"):
        raise RuntimeError("failed after the block")
    return {"booked": job.id}


@handler("book_limited", threads=20, timeout=1)
def book_limited(job: Job) -> None:
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_ledger (job_id) VALUES (:id)"), {"id": job.id})
        limited_thread(job)


@handler("paid_async", ack="each")
async def paid_async(job: Job) -> None:
    await wait_async(job)


@handler("paid_thread", ack="each", threads=20)
def paid_thread(job: Job) -> None:
    wait_thread(job)
