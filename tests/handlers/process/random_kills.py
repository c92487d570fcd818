"""Kill -9 of runners at a known point, or at random until all jobs have ended."""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psutil

from tests.process.installation import RUN_SECONDS, Installation, wait_until

AT_WORK = (
    "SELECT DISTINCT mayfly_runners.pid FROM mayfly_runners"
    " JOIN mayfly_jobs ON mayfly_jobs.worker_id = mayfly_runners.worker_id"
    " WHERE mayfly_jobs.status = 'processing' AND mayfly_runners.finished_at IS NULL"
)
STOPPED = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def kill(pid: int) -> None:
    """And wait until it is dead."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: _is_dead(process), f"{pid} is dead")


def kill_one_at_work(installation: Installation) -> bool:
    """Kill a runner with a claimed job, which was not killed before."""
    return any(_kill_at_work(installation, pid) for pid in _pids_at_work(installation))


def _kill_at_work(installation: Installation, pid: int) -> bool:
    """Stop it first, so that its jobs cannot end meanwhile."""
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: process.status() in STOPPED, f"{pid} is stopped")
        if not _is_dead(process) and pid in _pids_at_work(installation):
            kill(pid)
            return True
        os.kill(pid, signal.SIGCONT)
    return False


def _pids_at_work(installation: Installation) -> list[int]:
    return [int(pid) for [pid] in rows_of(installation, AT_WORK)()]


def rows_of(installation: Installation, query: str) -> Callable[[], Sequence[Any]]:
    """Without a lock, which a stopped runner may hold."""
    return lambda: installation.database.read(lambda connection: connection.execute(query).all())


def runner_at(installation: Installation, port: int) -> int:
    """The runner whose connection has this local port."""
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
    *signs: Callable[[], object],
    kills: int,
    within: float = 0.02,
    check: Callable[[], object] = lambda: None,
) -> int:
    """Run cycles until all jobs have ended; returns the number of killed runners.

    Each is killed at a random time, at most `within` seconds, after one of the signs has changed, in turn, so that
    kills hit every step between two changes. `check` is called after each kill.
    """
    rng, killed, is_over = random.Random(1), 0, ended(installation)
    while not is_over():
        cycle = installation.start("dispatcher")
        while killed < kills and cycle.poll() is None:
            sign = signs[killed % len(signs)]
            before = sign()
            wait_until(lambda: sign() != before or cycle.poll() is not None, "a step, or the end of the cycle")  # noqa: B023
            time.sleep(rng.random() * within)  # the random moment
            if kill_one_at_work(installation):
                killed += 1
                check()
        cycle.wait(RUN_SECONDS)
    return killed
