"""Handlers that behave as badly as handlers do, and one that keeps a ledger of what really ran."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import text

from mayfly import Job, handler


@handler("ledger")
def ledger(job: Job) -> None:
    """One line a run, straight to a file: what happened, whatever became of the row."""
    path = Path(os.environ["MAYFLY_HOME"]) / "ledger"
    with path.open("a") as file:
        file.write(f"{job.id} {job.claims} {os.getpid()}\n")
    time.sleep(float(job.payload.get("seconds", 0)))


@handler("booked")
def booked(job: Job) -> None:
    """One row a job, in the job's own transaction."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_ledger (job_id) VALUES (:id)"), {"id": job.id})
        time.sleep(float(job.payload.get("seconds", 0)))


@handler("oversleep")
def oversleep(_job: Job) -> None:
    time.sleep(3600)


@handler("limited", timeout=1)
def limited(_job: Job) -> None:
    time.sleep(3600)


@handler("deaf")
def deaf(_job: Job) -> None:
    """Ignores SIGTERM and every exception."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            continue


@handler("blocked")
def blocked(_job: Job) -> None:
    """Blocked in C, with the GIL held: no Python signal handler can run."""
    ctypes.PyDLL(None).sleep(3600)


@handler("parent")
def parent(_job: Job) -> None:
    """Starts a child that ignores SIGTERM, and waits for it."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    subprocess.run([sys.executable, "-c", code], check=True)


@handler("daemonise")
def daemonise(_job: Job) -> None:
    """Leaves a process of its own session behind."""
    subprocess.Popen(["sleep", "3600"], start_new_session=True)


@handler("glutton")
def glutton(_job: Job) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(8 << 20))
        time.sleep(0.01)


@handler("quitter")
def quitter(_job: Job) -> None:
    raise SystemExit(3)


@handler("chatter")
def chatter(_job: Job) -> None:
    """Ten megabytes on stdout."""
    for _ in range(10 << 10):
        print("x" * 1023)


@handler("unprintable")
def unprintable(_job: Job) -> None:
    raise ValueError("NUL \x00, an astronaut \U0001f680, a lone surrogate \ud800")
