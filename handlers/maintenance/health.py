"""Check host and services and store the findings; a red one makes the job dead, which sends an alert."""

import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta

from sqlalchemy import Connection, delete, func, select

from handlers.cooldown import active_cooldowns
from handlers.maintenance.findings import RED, Finding, read_thresholds, worst
from handlers.maintenance.probes import check_disks, check_memory, provider_probes, smtp_probes
from handlers.maintenance.tables import health_checks
from handlers.upsert import upsert
from mayfly import Dead, Job, setting

PROBE_SECONDS = 20.0  # for all concurrent probes together
MAX_THREADS = 16
KEPT = timedelta(days=14)


def check(job: Job, only: Collection[str]) -> dict[str, str]:
    findings = list(_findings(job, only))
    health = worst(findings)
    _store(job, health, findings)
    red = [f"{each.what}: {each.text}" for each in findings if each.health == RED]
    if red:
        raise Dead(f"red: {'; '.join(red)}")
    return {"worst": health}


def _findings(job: Job, only: Collection[str]) -> Iterator[Finding]:
    local: dict[str, Callable[[], Iterator[Finding]]] = {
        "database": lambda: _check_database(job),
        "disk": check_disks,
        "memory": check_memory,
    }
    for name, check_one in local.items():
        if name in only:
            yield from check_one()
    probes: dict[str, Callable[[], Finding]] = {}
    if "smtp" in only:
        probes |= smtp_probes(active_cooldowns(job))
    if "providers" in only:
        probes |= provider_probes()
    yield from run_probes(probes, PROBE_SECONDS)


def _check_database(job: Job) -> Iterator[Finding]:
    """Time a short query. A database that does not answer at all stops every job, this one too."""
    thresholds = read_thresholds("HEALTH_DATABASE", "0.5,3")
    started = time.monotonic()
    job.read(lambda connection: connection.scalar(select(func.max(health_checks.c.job_id))))
    seconds = time.monotonic() - started
    yield Finding("database", thresholds.judge(seconds), f"answered in {seconds * 1000:.0f} ms")


def run_probes(probes: dict[str, Callable[[], Finding]], seconds: float) -> Iterator[Finding]:
    """In threads. A probe that is not done in time is red; its thread ends by its own timeouts."""
    if not probes:
        return
    pool = ThreadPoolExecutor(min(MAX_THREADS, len(probes)))
    started: dict[Future[Finding], str] = {pool.submit(probe): what for what, probe in probes.items()}
    wait(started, seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    for future, what in started.items():
        is_done = future.done() and not future.cancelled()
        yield future.result() if is_done else Finding(what, RED, f"no answer within {seconds:g} s")


def _store(job: Job, health: str, findings: list[Finding]) -> None:
    now = job.now
    row = {
        "job_id": job.id,
        "checked_at": now,
        "host": setting("HOST_NAME", socket.gethostname())[:64],
        "worst": health,
        "findings": [each._asdict() for each in findings],
    }

    def write(connection: Connection) -> None:
        upsert(connection, health_checks, row)
        connection.execute(delete(health_checks).where(health_checks.c.checked_at < now - KEPT))

    job.write(write)
