"""Hooks, well and badly behaved, and handlers that return what a hook has stored for them."""

import json
import os
import sys
import threading
import time
from contextvars import ContextVar
from pathlib import Path

from mayfly import Job, handler
from mayfly.queue.outcome import Outcome

SPAN: ContextVar[str] = ContextVar("SPAN", default="none")


def record(**facts: object) -> None:
    line = json.dumps(facts)
    with (Path(os.environ["MAYFLY_HOME"]) / "hook_calls").open("a") as file:
        file.write(f"{line}\n")


def before(job: Job) -> None:
    SPAN.set(f"span of {job.id}")
    record(hook="before", job=job.id, type=job.type)


def after(job: Job, outcome: Outcome) -> None:
    main = threading.current_thread() is threading.main_thread()
    record(hook="after", job=job.id, type=job.type, kind=outcome.kind, error=outcome.error, main=main)


def dead(job: Job, outcome: Outcome) -> None:
    record(hook="dead", job=job.id, type=job.type, payload=job.payload, error=outcome.error, pid=os.getpid())


def before_row(job: Job) -> None:
    record(hook="before", row=job.row["id"])


def after_row(job: Job, outcome: Outcome) -> None:
    record(hook="after", row=job.row["id"], kind=outcome.kind)


def raise_before(job: Job) -> None:
    raise RuntimeError(f"no span for {job.type}")


def quote_before(job: Job) -> None:
    raise RuntimeError(f"no span for {job.payload}")


def raise_after(_job: Job, _outcome: Outcome) -> None:
    sys.exit("no more")


def hang_before(_job: Job) -> None:
    time.sleep(3600)


def hang_after(_job: Job, _outcome: Outcome) -> None:
    time.sleep(3600)


def fail_first(job: Job, outcome: Outcome) -> None:
    """An alert whose receiver is down at first."""
    path = Path(os.environ["MAYFLY_HOME"]) / "in vain"
    if not path.exists():
        path.touch()
        raise ConnectionError("the pager is away")
    dead(job, outcome)


async def async_hook(_job: Job) -> None: ...


@handler("seen_plain")
def seen_plain(_job: Job) -> str:
    return SPAN.get()


@handler("seen_async")
async def seen_async(_job: Job) -> str:
    return SPAN.get()


@handler("seen_thread", threads=5)
def seen_thread(_job: Job) -> str:
    return SPAN.get()


@handler("short_timeout", timeout=1, max_attempts=1)
def short_timeout(_job: Job) -> str:
    return "started"
