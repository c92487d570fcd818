"""Kill -9: at a moment that something else has told of, or at random ones until nothing is left to do."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tests.process.installation import Installation, wait_until


def kill(pid: int) -> None:
    """And see that it does nothing any more; its parent has still to be told."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: _is_dead(process), f"{pid} is dead")


def runner_at(installation: Installation, port: int) -> int:
    """The one whose connection has this port at its end."""
    found = [pid for pid in installation.runner_pids() if _has_port(pid, port)]
    assert len(found) == 1, f"not one runner has the port {port}: {found}"
    return found[0]


def _has_port(pid: int, port: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return any(each.laddr and each.laddr.port == port for each in psutil.Process(pid).net_connections())
    return False


def _is_dead(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    return True


def ended(installation: Installation) -> Callable[[], bool]:
    return lambda: not installation.statuses().keys() & {"pending", "processing"}


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
