"""Check host and services and store the findings. A new problem makes the job dead, which sends an alert."""

import socket
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, select, update

from handlers.cooldown import active_cooldowns
from handlers.maintenance.findings import RED, Finding, read_thresholds, worst
from handlers.maintenance.probes import Probes, check_disks, check_memory, provider_probes, smtp_probes
from handlers.maintenance.tables import health_checks, health_problems
from handlers.upsert import insert_missing, upsert
from mayfly import Dead, Job, MayflyError, setting

PROBE_SECONDS = 20.0  # for all concurrent probes
MAX_THREADS = 16
KEPT = timedelta(days=14)
RECURRENCE = timedelta(hours=1)  # a problem that comes back earlier is still the same one
# The first word of a check's findings.
KINDS = {"database": "database", "disk": "disk", "memory": "memory", "smtp": "mail", "providers": "provider"}
LOCAL_KINDS = ("disk", "memory")  # of one host; the others are services that all hosts share


def check(job: Job, only: Collection[str]) -> dict[str, str]:
    findings = list(_findings(job, only))
    host = setting("HOST_NAME", socket.gethostname())[:64]
    red = {_subject(each, host): each for each in findings if each.health == RED}

    def write(connection: Connection) -> set[str]:
        _store(connection, job, host, findings)
        _end_problems(connection, {KINDS[name] for name in only}, set(red), host, job.now)
        return {subject for subject in red if _is_new_problem(connection, job, subject)}

    new = job.write(write)
    if new:
        raise Dead("red: " + "; ".join(f"{each.what}: {each.text}" for name, each in red.items() if name in new))
    return {"worst": worst(findings)}


def _findings(job: Job, only: Collection[str]) -> Iterator[Finding]:
    """A setting that is not valid is a problem like any other."""
    local: dict[str, Callable[[], Iterator[Finding]]] = {
        "database": lambda: _check_database(job),
        "disk": check_disks,
        "memory": check_memory,
    }
    remote: dict[str, Callable[[], Probes]] = {
        "smtp": lambda: smtp_probes(active_cooldowns(job)),
        "providers": provider_probes,
    }
    probes: Probes = {}
    for name in (each for each in KINDS if each in only):
        try:
            if name in local:
                yield from local[name]()
            else:
                probes |= remote[name]()
        except (Dead, MayflyError) as error:
            yield Finding(KINDS[name], RED, str(error))
    yield from run_probes(probes, PROBE_SECONDS)


def _check_database(job: Job) -> Iterator[Finding]:
    """Time a short query. If the database does not respond at all, no job runs, not even this one."""
    thresholds = read_thresholds("HEALTH_DATABASE", "0.5,3")
    started = time.monotonic()
    job.read(lambda connection: connection.scalar(select(func.max(health_checks.c.job_id))))
    seconds = time.monotonic() - started
    yield Finding("database", thresholds.judge(seconds), f"responded in {seconds * 1000:.0f} ms")


def run_probes(probes: Probes, seconds: float) -> Iterator[Finding]:
    """Run the probes in threads. A probe that takes too long is red; its thread ends by its own timeouts."""
    if not probes:
        return
    pool = ThreadPoolExecutor(min(MAX_THREADS, len(probes)))
    started: dict[Future[Finding], str] = {pool.submit(probe): what for what, probe in probes.items()}
    wait(started, seconds)
    pool.shutdown(wait=False, cancel_futures=True)
    for future, what in started.items():
        is_done = future.done() and not future.cancelled()
        yield future.result() if is_done else Finding(what, RED, f"no response within {seconds:g} s")


def _store(connection: Connection, job: Job, host: str, findings: list[Finding]) -> None:
    now = job.now
    row = {
        "job_id": job.id,
        "checked_at": now,
        "host": host,
        "worst": worst(findings),
        "findings": [each._asdict() for each in findings],
    }
    upsert(connection, health_checks, row)
    connection.execute(delete(health_checks).where(health_checks.c.checked_at < now - KEPT))


# --- problems: one row each, written by the job that reports it -------------------------------------------


def _subject(finding: Finding, host: str) -> str:
    return (f"{finding.what} on {host}" if _kind(finding.what) in LOCAL_KINDS else finding.what)[:190]


def _kind(subject: str) -> str:
    return subject.partition(" ")[0]


def _end_problems(connection: Connection, checked: set[str], red: set[str], host: str, now: datetime) -> None:
    """Also those of disks, accounts and providers that are no longer configured."""
    p = health_problems.c
    connection.execute(delete(health_problems).where(p.recovered_at < now - RECURRENCE))
    known = connection.scalars(select(p.subject).where(p.recovered_at.is_(None))).all()
    for subject in known:
        is_ours = _kind(subject) not in LOCAL_KINDS or subject.endswith(f" on {host}")
        if _kind(subject) in checked and is_ours and subject not in red:
            connection.execute(update(health_problems).where(p.subject == subject).values(recovered_at=now))


def _is_new_problem(connection: Connection, job: Job, subject: str) -> bool:
    """A repeated run of the job that has reported it reports it again."""
    p = health_problems.c
    insert_missing(connection, health_problems, {"subject": subject, "since_at": job.now, "job_id": job.id})
    connection.execute(update(health_problems).where(p.subject == subject).values(recovered_at=None))
    return connection.scalar(select(p.job_id).where(p.subject == subject)) == job.id
