"""Look whether all is well; write down what was found, and be dead if anything is red, so that somebody is told."""

import json
import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any

from handlers.care.findings import RED, Finding, read_thresholds, worst
from handlers.care.probes import look_at_disks, look_at_memory, provider_probes, smtp_probes
from handlers.rests import resting
from mayfly import Dead, Job, setting

ALL_SECONDS = 20.0  # for all probes together, that wait side by side
AT_ONCE = 16
KEPT = timedelta(days=14)
COLUMNS = ("job_id", "checked_at", "host", "worst", "findings")
FORGET = "DELETE FROM app_health WHERE checked_at < :before"


def check(job: Job, only: Collection[str]) -> dict[str, str]:
    findings = list(_findings(job, only))
    health = worst(findings)
    _store(job, health, findings)
    red = [f"{each.what}: {each.text}" for each in findings if each.health == RED]
    if red:
        raise Dead(f"red: {'; '.join(red)}")
    return {"worst": health}


def _findings(job: Job, only: Collection[str]) -> Iterator[Finding]:
    here: dict[str, Callable[[], Iterator[Finding]]] = {
        "database": lambda: _look_at_database(job),
        "disk": look_at_disks,
        "memory": look_at_memory,
    }
    for name, look in here.items():
        if name in only:
            yield from look()
    probes: dict[str, Callable[[], Finding]] = {}
    if "smtp" in only:
        probes |= smtp_probes(resting(job))
    if "providers" in only:
        probes |= provider_probes()
    yield from side_by_side(probes, ALL_SECONDS)


def _look_at_database(job: Job) -> Iterator[Finding]:
    """By a short look at a table of ours. One that is away altogether stops all jobs, this one too."""
    thresholds = read_thresholds("HEALTH_DATABASE", "0.5,3")
    begun = time.monotonic()
    job.read(lambda connection: connection.execute("SELECT MAX(job_id) FROM app_health").scalar())
    seconds = time.monotonic() - begun
    yield Finding("database", thresholds.judge(seconds), f"answered in {seconds * 1000:.0f} ms")


def side_by_side(probes: dict[str, Callable[[], Finding]], seconds: float) -> Iterator[Finding]:
    """What is not there in time is red; its thread ends with its own time-outs."""
    if not probes:
        return
    pool = ThreadPoolExecutor(min(AT_ONCE, len(probes)))
    asked: dict[Future[Finding], str] = {pool.submit(probe): what for what, probe in probes.items()}
    wait(asked, seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    for future, what in asked.items():
        known = future.done() and not future.cancelled()
        yield future.result() if known else Finding(what, RED, f"no answer within {seconds:g} s")


def _store(job: Job, health: str, findings: list[Finding]) -> None:
    now = job.now
    row: dict[str, Any] = {
        "job_id": job.id,
        "checked_at": now,
        "host": setting("HOST_NAME", socket.gethostname())[:64],
        "worst": health,
        "findings": json.dumps([each._asdict() for each in findings]),
    }

    def write(connection: Any) -> None:
        connection.execute(connection.dialect.upsert("app_health", ("job_id",), COLUMNS), row)
        connection.execute(FORGET, {"before": now - KEPT})

    job.write(write)
