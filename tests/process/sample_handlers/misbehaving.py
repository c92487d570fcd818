"""Handlers that behave as badly as handlers do, and one that keeps a ledger of what really ran."""

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


@handler("ledger")
def ledger(job: Job) -> None:
    """One line a run, straight to a file: what happened, whatever became of the row."""
    path = Path(os.environ["MAYFLY_HOME"]) / "ledger"
    with path.open("a") as file:
        file.write(f"{job.id} {job.claims} {os.getpid()}\n")
    linger(job)


@handler("booked")
def booked(job: Job) -> None:
    """One row a job, in the job's own transaction."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_ledger (job_id) VALUES (:id)"), {"id": job.id})
        linger(job)


def linger(job: Job) -> None:
    """For so many seconds, or until the gate that the payload names is open."""
    gate = Path(os.environ["MAYFLY_HOME"]) / job.payload.get("gate", ".")
    while not gate.exists():
        time.sleep(0.01)
    time.sleep(float(job.payload.get("seconds", 0)))


@handler("oversleep")
def oversleep(_job: Job) -> None:
    time.sleep(3600)


@handler("reluctant")
def reluctant(job: Job) -> None:
    """Obeys an interruption only after it has run for so many seconds."""
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
    """Blocked in C, with the GIL held, where no signal gets through: in a mutex that is locked already."""
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
    """Leaves a process of its own session behind."""
    subprocess.Popen(["sleep", "3600"], start_new_session=True)


@handler("glutton")
def glutton(_job: Job) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(8 << 20))
        time.sleep(0.01)


@handler("glutton_later")
def glutton_later(job: Job) -> None:
    await_release()
    glutton(job)


@handler("die_once")
def die_once(job: Job) -> None:
    if not job.crashes:
        os.kill(os.getpid(), signal.SIGKILL)


@handler("print_later")
def print_later(_job: Job) -> None:
    await_release()
    print("long after the dispatcher")


@handler("leave_child")
def leave_child(_job: Job) -> None:
    """In the runner's group."""
    leave(subprocess.Popen(["sleep", "3600"]))


@handler("leave_daemon")
def leave_daemon(_job: Job) -> None:
    """In a session of its own."""
    leave(subprocess.Popen(["sleep", "3600"], start_new_session=True))


def leave(child: "subprocess.Popen[bytes]") -> None:
    (Path(os.environ["MAYFLY_HOME"]) / "child").write_text(str(child.pid))
    await_release()


def await_release() -> None:
    """As the handler `latch` does."""
    home = Path(os.environ["MAYFLY_HOME"])
    (home / "reached").touch()
    while not (home / "go").exists():
        time.sleep(0.01)


@handler("quitter")
def quitter(_job: Job) -> None:
    raise SystemExit(3)


@handler("chatter")
def chatter(_job: Job) -> None:
    """Ten megabytes on stdout."""
    for _ in range(10 << 10):
        print("x" * 1023)


@handler("chatter_later")
def chatter_later(job: Job) -> None:
    await_release()
    chatter(job)


@handler("unprintable")
def unprintable(_job: Job) -> None:
    raise ValueError("NUL \x00, an astronaut \U0001f680, a lone surrogate \ud800")


@handler("witnessed")
def witnessed(job: Job) -> None:
    """A run that leaves a line, and says whether it is the only one of its job alive: the kernel keeps that lock."""
    home = Path(os.environ["MAYFLY_HOME"])
    with (home / f"run-{job.id}.lock").open("w") as lock, (home / "runs").open("a") as runs:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = "alone"
        except BlockingIOError:
            alone = "beside another"
        runs.write(f"{job.id} {job.claims} {os.getpid()}/{start_time(os.getpid())} {alone}\n")
        runs.flush()
        if job.payload.get("booked"):
            booked(job)
        else:
            linger(job)


@handler("interrupting")
def interrupting(_job: Job) -> None:
    raise KeyboardInterrupt


@handler("torrent")
def torrent(_job: Job) -> None:
    """Prints for ever, faster than anybody can read."""
    subprocess.run(["yes", "y" * 1000], check=True)


@handler("terminating")
def terminating(_job: Job) -> list[int | None]:
    """Ends processes of its own by SIGTERM at once, as the pools of the standard library do."""
    children = [multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,)) for _ in range(100)]
    for child in children:
        child.start()
        child.terminate()
    for child in children:
        child.join(10)
    return sorted({child.exitcode for child in children}, key=str)


@handler("stopped")
def stopped(_job: Job) -> None:
    """Stops the whole process: no signal handler runs in it, and no thread either."""
    os.kill(os.getpid(), signal.SIGSTOP)


@handler("stubborn_parent")
def stubborn_parent(_job: Job) -> None:
    """Its child ignores SIGTERM, and it waits for that child whatever comes."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
    child = subprocess.Popen([sys.executable, "-c", code])
    while child.poll() is None:
        try:
            child.wait()
        except BaseException:
            continue


class SlowToTell(Exception):
    def __str__(self) -> str:
        time.sleep(1.5)
        return "at last"


@handler("slow_to_tell", timeout=1)
def slow_to_tell(_job: Job) -> None:
    """Ends at once; to ask how takes longer than it was allowed to run."""
    raise SlowToTell


class Sleepy(BaseModel):
    how: str

    @field_validator("how")
    @classmethod
    def _sleep(cls, how: str) -> str:
        if how == "raise":
            raise RuntimeError("the model itself is broken")
        time.sleep(3600)
        return how


@handler("sleepy", timeout=1)
def sleepy(_job: Job, _payload: Sleepy) -> None:
    """Never reached: its model sleeps, or fails in a way that is no judgement on the payload."""
