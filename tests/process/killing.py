"""Kill -9 at a moment that something else has told of."""

import os
import signal
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
