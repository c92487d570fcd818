"""The handler of type `command`: it runs a command of a schedule file, without a shell, with bounded output and time.

It runs only commands in the schedule files of this host, never a command from a row. The command has its own process
group, which is killed when the job ends. client.py imports this module for the first such job.
"""

import math
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from typing import Any

from mayfly.clock import monotonic
from mayfly.job import Job
from mayfly.process.fork import die_with_parent
from mayfly.queue.outcome import Dead, Retry
from mayfly.schedules.files import read_schedules
from mayfly.schedules.next_due import schedule_files
from mayfly.schedules.parse import ScheduleEntry
from mayfly.settings import Settings

MAX_OUTPUT_BYTES = 8000  # the end of the output; as JSON it may be six times as long, and still fits a result
CHUNK = 64 << 10
MAX_WAIT_SECONDS = 60.0  # of one select() if the command has no timeout
STOP_TIMEOUT_SECONDS = 2.0  # between TERM and KILL, after its own timeout
INTERRUPTED_STOP_TIMEOUT_SECONDS = 0.2  # after its runner's timeout: the guard's second alarm comes after 0.5 s


def run_scheduled_command(job: Job, settings: Settings) -> dict[str, Any]:
    """Run the command that the schedule files have under the name in the job's payload."""
    name = job.payload.get("schedule")
    schedules = read_schedules(schedule_files(settings), settings.home, settings.payload_limit)
    entry = schedules.get(name) if isinstance(name, str) else None
    if entry is not None and entry.command is not None:
        return run_command(entry, entry.command, settings.home)
    if schedules.problems:
        raise Retry(f"no command {name!r} in the schedule files, which have an error: {schedules.problems[0]}")
    raise Dead(f"no command {name!r} in the schedule files of this host: only commands in them are run")


def run_command(entry: ScheduleEntry, command: str, home: Path) -> dict[str, Any]:
    """Returns exit code and output. Any exit code but 0 is a failure of the job, with the output in the error."""
    tail = Tail()
    with _started(command, home) as process:
        in_time = _follow(process, tail, entry.timeout)
        if not in_time:
            _end_group(process, STOP_TIMEOUT_SECONDS)
    if not in_time:
        raise Retry(f"timed out after {entry.timeout} s and was terminated: {command}\n{tail}".rstrip())
    code = process.returncode
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
        raise Retry(f"{how}: {command}\n{tail}".rstrip())
    return {"exit_code": code, "output": str(tail)}


class Tail:
    """The end of a command's output."""

    def __init__(self) -> None:
        self._kept = b""
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._kept = (self._kept + chunk)[-MAX_OUTPUT_BYTES:]

    def __str__(self) -> str:
        text = self._kept.decode("utf-8", "replace").rstrip()
        omitted = self._bytes - len(self._kept)
        return f"… {omitted:,} bytes omitted …\n{text}" if omitted else text


@contextmanager
def _started(command: str, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command; its process group is killed at the end of the block. A path is relative to MAYFLY_HOME."""
    program, *arguments = shlex.split(command)
    runner = os.getpid()
    try:
        process = subprocess.Popen(  # noqa: S603 - the command comes from a schedule file of an operator
            [str(home / program) if "/" in program else program, *arguments],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=lambda: die_with_parent(runner),  # a killed runner must not leave it behind
        )
    except OSError as error:
        raise Retry(f"cannot be started: {error.strerror}: {command}") from error
    try:
        yield process
    finally:
        _end_group(process, INTERRUPTED_STOP_TIMEOUT_SECONDS)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _follow(process: subprocess.Popen[bytes], tail: Tail, timeout: int | None) -> bool:
    """Read its output until it exits; False if its timeout comes first.

    Waits for the exit, not for the end of the output: a process that it left behind may keep the pipe open.
    """
    assert process.stdout is not None
    output, end = process.stdout.fileno(), os.pidfd_open(process.pid)
    os.set_blocking(output, False)
    deadline = math.inf if timeout is None else monotonic() + timeout
    watched = {output, end}
    try:
        while (left := deadline - monotonic()) > 0:
            ready, _, _ = select(watched, (), (), min(left, MAX_WAIT_SECONDS))
            if output in ready and not _drain(output, tail):
                watched.remove(output)
            if end in ready:
                _drain(output, tail)
                return True
    finally:
        os.close(end)
    return False


def _drain(output: int, tail: Tail) -> bool:
    """Read what is available; False at the end of the output."""
    with suppress(BlockingIOError):
        for _ in range(16):  # endless output must not keep us from checking the deadline
            chunk = os.read(output, CHUNK)
            if not chunk:
                return False
            tail.add(chunk)
    return True


def _end_group(process: subprocess.Popen[bytes], timeout_seconds: float) -> None:
    """TERM, then KILL. Called before the process is waited for: until then its pid is not reused."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        end = os.pidfd_open(process.pid)
        select([end], (), (), timeout_seconds)
        os.close(end)
        os.killpg(process.pid, signal.SIGKILL)
