"""Handlers for rows of an application's own table: each run is recorded, with the key of the row."""

import fcntl
import os
import time
from pathlib import Path

from mayfly import Dead, Job, concurrency, handler
from mayfly.process.identity import start_time
from tests.process.sample_handlers.lazy_sqlalchemy import text


def home() -> Path:
    return Path(os.environ["MAYFLY_HOME"])


def record(job: Job, alone: str = "alone") -> None:
    """A line that no other process can split; the file stays open while the job runs."""
    with (home() / "runs").open("a") as runs:
        runs.write(f"{job.id} {job.claims} {os.getpid()}/{start_time(os.getpid())} {alone} {job.row['id']}\n")


def wait_for_gate(job: Job) -> None:
    record(job)
    (home() / "reached").touch()
    while not (home() / "go").exists():
        time.sleep(0.01)


@handler("publish")
def publish(job: Job) -> None:
    record(job)


@handler("publish_refused")
def publish_refused(job: Job) -> None:
    record(job)
    raise Dead("no such channel")


@handler("publish_gated")
def publish_gated(job: Job) -> None:
    wait_for_gate(job)


def write_ledger(job: Job) -> None:
    with job.transaction() as connection:
        row = {"id": job.id, "key": str(job.row["id"])}
        connection.execute(text("INSERT INTO ledger (job_id, row_key) VALUES (:id, :key)"), row)


@handler("publish_in_transaction")
def publish_in_transaction(job: Job) -> None:
    """Waits before its transaction: SQLite has one writer at a time."""
    wait_for_gate(job)
    write_ledger(job)


@handler("publish_in_thread", threads=2)
def publish_in_thread(job: Job) -> None:
    publish_in_transaction(job)


@handler("publish_limited", limits=concurrency("publish", 1))
def publish_limited(job: Job) -> None:
    with (home() / "limited.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record(job)
        time.sleep(0.01)


@handler("publish_or_crash")
def publish_or_crash(job: Job) -> None:
    record(job)
    os.kill(os.getpid(), 9)


@handler("publish_at_random", backoff_base=0.05)
def publish_at_random(job: Job) -> None:
    """By the columns of its row: fails at the first attempt, writes a ledger, or only takes some time."""
    with (home() / f"row-{job.row['id']}.lock").open("w") as lock, (home() / "runs").open("a") as runs:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = "alone"
        except BlockingIOError:
            alone = "concurrent"
        runs.write(f"{job.id} {job.claims} {os.getpid()}/{start_time(os.getpid())} {alone}\n")
        runs.flush()
        time.sleep(float(job.row["seconds"]))
        if job.row["kind"] == "fail" and job.attempt == 1:
            raise RuntimeError("as its row asks for")
        if job.row["kind"] == "ledger":
            write_ledger(job)
