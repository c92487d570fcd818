"""Handlers for tests: a blast in steps of two; its runner is killed at the points listed in a file."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from handlers.outreach import blast as blasting
from handlers.outreach import tables
from mayfly import Job

MOMENTS = ("read", "committing", "committed")  # the last is before the checkpoint
KILLS_FILE = Path(os.environ.get("MAYFLY_HOME", "/nonexistent")) / "deaths"  # one line per kill: count and point

_reached = Counter[str]()
_record_recipients = tables.record_recipients


def reach(moment: str) -> None:
    _reached[moment] += 1
    left = KILLS_FILE.read_text().splitlines() if KILLS_FILE.exists() else []
    if left and left[0] == f"{_reached[moment]} {moment}":
        KILLS_FILE.write_text("".join(f"{line}\n" for line in left[1:]))
        os.kill(os.getpid(), signal.SIGKILL)


def record_recipients(
    job: Job, blast: str, addresses: Sequence[str], enqueue: Callable[[Any, set[str]], object]
) -> None:
    def enqueue_and_reach(connection: Any, new: set[str]) -> None:
        enqueue(connection, new)
        reach("committing")

    reach("read")
    _record_recipients(job, blast, addresses, enqueue_and_reach)
    reach("committed")


tables.record_recipients = record_recipients
blasting.STEP_SIZE = 2
