"""Cycles whose runners are killed at random moments, until nothing is left to do."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tests.process.installation import Installation, wait_until


def drain_under_kills(
    installation: Installation,
    progress: Callable[[], object],
    *,
    kills: int,
    within: float,
    look: Callable[[], object] = lambda: None,
) -> int:
    """A runner is killed so many seconds at most after `progress` has changed, then looked; how many were killed."""
    chance = random.Random(1)
    killed = 0
    while installation.statuses().keys() & {"pending", "processing"}:
        cycle = installation.start("dispatcher")
        while killed < kills and cycle.poll() is None:
            before = progress()
            wait_until(lambda: progress() != before or cycle.poll() is not None, "something happens")  # noqa: B023
            time.sleep(chance.random() * within)  # the random moment itself
            for pid in installation.runner_pids()[:1]:
                with suppress(ProcessLookupError):  # it came to its end by itself
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                    look()
        cycle.wait(60)
    return killed
