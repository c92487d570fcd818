"""Handlers that misbehave, and handlers that record their runs outside the database."""

import ctypes
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pydantic import BaseModel, field_validator

from mayfly import Job, handler
from mayfly.process.identity import start_time
from tests.process.sample_handlers.lazy_sqlalchemy import text


@handler("record_run")
def record_run(job: Job) -> None:
    """One line per run, written directly to a file: independent of the row."""
    path = Path(os.environ["MAYFLY_HOME"]) / "recorded_runs"
    with path.open("a") as file:
        file.write(f"{job.id} {job.claims} {os.getpid()}\n")
    pause(job)


@handler("insert_row")
def insert_row(job: Job) -> None:
    """One row per job, in the job's own transaction."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_rows (job_id) VALUES (:id)"), {"id": job.id})
        (Path(os.environ["MAYFLY_HOME"]) / f"inserted-{job.id}").touch()
        pause(job)


def pause(job: Job) -> None:
    """Until the gate in the payload is open, and then for the seconds in the payload."""
    gate = Path(os.environ["MAYFLY_HOME"]) / job.payload.get("gate", ".")
    while not gate.exists():
        time.sleep(0.01)
    time.sleep(float(job.payload.get("seconds", 0)))


@handler("sleep_an_hour")
def sleep_an_hour(_job: Job) -> None:
    time.sleep(3600)


@handler("delay_interrupt")
def delay_interrupt(job: Job) -> None:
    """Ignores interruptions until it has run for the seconds in the payload."""
    started = time.monotonic()
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            if time.monotonic() - started >= job.payload["seconds"]:
                raise


@handler("limited", timeout=1)
def limited(_job: Job) -> None:
    time.sleep(3600)


@handler("slow_cleanup", timeout=1)
def slow_cleanup(_job: Job) -> None:
    """Needs a second to clean up, in which it is interrupted again."""
    try:
        time.sleep(3600)
    finally:
        clean_up(time.monotonic() + 1)


def clean_up(until: float) -> None:
    try:
        time.sleep(max(0.0, until - time.monotonic()))
    finally:
        if time.monotonic() < until:
            clean_up(until)


@handler("uninterruptible")
def uninterruptible(_job: Job) -> None:
    """Ignores SIGTERM and every exception."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            continue


@handler("blocked")
def blocked(_job: Job) -> None:
    """In C, with the GIL held, where no signal handler runs: in a mutex that is already locked."""
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


@handler("parent")
def parent(_job: Job) -> None:
    """Starts a child that ignores SIGTERM, and waits for it."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    subprocess.run([sys.executable, "-c", code], check=True)


@handler("daemonise")
def daemonise(_job: Job) -> None:
    """Leaves a process in its own session behind."""
    subprocess.Popen(["sleep", "3600"], start_new_session=True)


@handler("allocate")
def allocate(_job: Job) -> None:
    blocks = []
    while True:
        blocks.append(bytearray(8 << 20))
        time.sleep(0.01)


@handler("allocate_later")
def allocate_later(job: Job) -> None:
    wait_at_gate()
    allocate(job)


@handler("die_always")
def die_always(_job: Job) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@handler("die_once")
def die_once(job: Job) -> None:
    if not job.crashes:
        os.kill(os.getpid(), signal.SIGKILL)


@handler("print_later")
def print_later(_job: Job) -> None:
    wait_at_gate()
    print("long after the dispatcher")


@handler("leave_child")
def leave_child(_job: Job) -> None:
    """In the process group of the runner."""
    leave(subprocess.Popen(["sleep", "3600"]))


@handler("leave_daemon")
def leave_daemon(_job: Job) -> None:
    """In its own session."""
    leave(subprocess.Popen(["sleep", "3600"], start_new_session=True))


def leave(child: "subprocess.Popen[bytes]") -> None:
    (Path(os.environ["MAYFLY_HOME"]) / "child").write_text(str(child.pid))
    wait_at_gate()


def wait_at_gate() -> None:
    """As the handler `gated` does."""
    home = Path(os.environ["MAYFLY_HOME"])
    (home / "reached").touch()
    while not (home / "go").exists():
        time.sleep(0.01)


@handler("system_exit")
def system_exit(_job: Job) -> None:
    raise SystemExit(3)


@handler("print_much")
def print_much(_job: Job) -> None:
    """Ten megabytes on stdout."""
    for _ in range(10 << 10):
        print("x" * 1023)


@handler("print_much_later")
def print_much_later(job: Job) -> None:
    wait_at_gate()
    print_much(job)


@handler("unprintable")
def unprintable(_job: Job) -> None:
    raise ValueError("NUL \x00, an astronaut \U0001f680, a lone surrogate \ud800")


@handler("locked_run")
def locked_run(job: Job) -> None:
    """Records each run, and whether another run of the job is alive, by a file lock."""
    home = Path(os.environ["MAYFLY_HOME"])
    with (home / f"run-{job.id}.lock").open("w") as lock, (home / "runs").open("a") as runs:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = "alone"
        except BlockingIOError:
            alone = "concurrent"
        runs.write(f"{job.id} {job.claims} {os.getpid()}/{start_time(os.getpid())} {alone}\n")
        runs.flush()
        if job.payload.get("insert"):
            insert_row(job)
        else:
            pause(job)


@handler("keyboard_interrupt")
def keyboard_interrupt(_job: Job) -> None:
    raise KeyboardInterrupt


@handler("print_endlessly")
def print_endlessly(_job: Job) -> None:
    """Prints endlessly, faster than any reader."""
    subprocess.run(["yes", "y" * 1000], check=True)


@handler("terminating")
def terminating(_job: Job) -> list[int | None]:
    """Sends SIGTERM to its own new processes, as the pools of the standard library do."""
    children = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,)) for _ in range(100)]
    for child in children:
        child.start()
        child.terminate()
    for child in children:
        child.join(10)
    return sorted({child.exitcode for child in children}, key=str)


@handler("stopped")
def stopped(_job: Job) -> None:
    """Stops the whole process, with its signal handlers and threads."""
    os.kill(os.getpid(), signal.SIGSTOP)


@handler("stubborn_parent")
def stubborn_parent(_job: Job) -> None:
    """Its child ignores SIGTERM, and it waits for that child, ignoring all exceptions."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    child = subprocess.Popen([sys.executable, "-c", code])
    while child.poll() is None:
        try:
            child.wait()
        except BaseException:
            continue


class SlowError(Exception):
    def __str__(self) -> str:
        time.sleep(1.5)
        return "at last"


@handler("slow_error", timeout=1)
def slow_error(_job: Job) -> None:
    """Fails immediately; formatting its error takes longer than its timeout."""
    raise SlowError


class SlowModel(BaseModel):
    how: str

    @field_validator("how")
    @classmethod
    def _sleep(cls, how: str) -> str:
        if how == "raise":
            raise RuntimeError("the model itself is broken")
        time.sleep(3600)
        return how


@handler("slow_model", timeout=1)
def slow_model(_job: Job, _payload: SlowModel) -> None:
    """Never called: its model sleeps, or raises an error that is no validation error."""
