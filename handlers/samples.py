"""Small jobs for the quickstart and for tests."""

import os
import signal
import time
from typing import Any

from pydantic import BaseModel, Field

from mayfly import Job, handler


@handler("noop")
def noop(_job: Job) -> None:
    """Does nothing."""


class Nap(BaseModel):
    seconds: float = Field(default=0.2, ge=0, le=3600)


@handler("sleep")
def sleep(_job: Job, nap: Nap) -> dict[str, Any]:
    time.sleep(nap.seconds)
    return {"slept": nap.seconds}


class Failing(BaseModel):
    times: int = Field(default=1, ge=1, description="how many attempts fail before one succeeds")


@handler("fail")
def fail(job: Job, failing: Failing) -> dict[str, Any]:
    if job.attempt <= failing.times:
        raise RuntimeError(f"failing as asked, attempt {job.attempt} of {failing.times}")
    return {"succeeded_at_attempt": job.attempt}


class Crashing(BaseModel):
    how: str = Field(default="kill", pattern="^(kill|segfault|exit)$")
    code: int = 0


@handler("crash")
def crash(_job: Job, crashing: Crashing) -> None:
    """End the runner's process in the given way."""
    if crashing.how == "exit":
        os._exit(crashing.code)
    os.kill(os.getpid(), signal.SIGKILL if crashing.how == "kill" else signal.SIGSEGV)
