"""Run a command that a schedule file names: no shell, a group of its own, bounded output, a time limit."""

import math
import os
import selectors
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mayfly.clock import monotonic
from mayfly.process.fork import die_with_parent
from mayfly.queue.outcome import Retry
from mayfly.schedules.parse import ScheduleEntry

MAX_OUTPUT_BYTES = 8000  # of the output, its end; as JSON it may become six times as long, and fits a result even so
CHUNK = 64 << 10
CANCEL_POLL_SECONDS = 60.0  # how long to wait for something to happen, where nothing limits it
STOP_TIMEOUT_SECONDS = 2.0  # between TERM and KILL, when its own time is up
INTERRUPTED_STOP_TIMEOUT_SECONDS = 0.2  # and when its runner's is: a second alarm comes after half a second


class Tail:
    """The end of what a command printed."""

    def __init__(self) -> None:
        self._kept = b""
        self._bytes = 0

    def add(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        self._kept = (self._kept + chunk)[-MAX_OUTPUT_BYTES:]

    def __str__(self) -> str:
        text = self._kept.decode("utf-8", "replace").rstrip()
        left_out = self._bytes - len(self._kept)
        return f"… {left_out:,} bytes left out …\n{text}" if left_out else text


def run_command(entry: ScheduleEntry, command: str, home: Path) -> dict[str, Any]:
    """Its exit code and output; anything but 0 is a failure of the job, with the output in its text."""
    tail = Tail()
    with _started(command, home) as process:
        in_time = _follow(process, tail, entry.timeout)
        if not in_time:
            _end_group(process, STOP_TIMEOUT_SECONDS)
    if not in_time:
        raise Retry(f"timed out after {entry.timeout} s and was ended: {command}\n{tail}".rstrip())
    code = process.returncode
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
        raise Retry(f"{how}: {command}\n{tail}".rstrip())
    return {"exit_code": code, "output": str(tail)}


@contextmanager
def _started(command: str, home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Whatever happens, nothing of its group is left afterwards. A relative path belongs to MAYFLY_HOME."""
    program, *arguments = shlex.split(command)
    runner = os.getpid()
    try:
        process = subprocess.Popen(  # noqa: S603 - what an operator wrote into a schedule file
            [str(home / program) if "/" in program else program, *arguments],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=lambda: die_with_parent(runner),  # a killed runner takes it along
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
    """Keep the end of what it prints until it ends; False if its time is up first.

    Its end is what counts, not that of its output: something it left running may hold the pipe open for ever.
    """
    assert process.stdout is not None
    output = process.stdout.fileno()
    os.set_blocking(output, False)
    deadline = math.inf if timeout is None else monotonic() + timeout
    with _watching(process, output) as selector:
        while monotonic() < deadline:
            ready = {key.data for key, _ in selector.select(min(deadline - monotonic(), CANCEL_POLL_SECONDS))}
            if "output" in ready and not _drain(output, tail):
                selector.unregister(output)
            if "end" in ready:
                _drain(output, tail)
                return True
    return False


def _drain(output: int, tail: Tail) -> bool:
    """Take what is there; False at the end of it."""
    with suppress(BlockingIOError):
        for _ in range(16):  # one that prints without end must not keep us from looking at the clock
            chunk = os.read(output, CHUNK)
            if not chunk:
                return False
            tail.add(chunk)
    return True


@contextmanager
def _watching(process: subprocess.Popen[bytes], output: int) -> Iterator[selectors.BaseSelector]:
    end = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ, "output")
            selector.register(end, selectors.EVENT_READ, "end")
            yield selector
    finally:
        os.close(end)


def _end_group(process: subprocess.Popen[bytes], patience: float) -> None:
    """TERM, a little patience, KILL. Before it is waited for: until then its number is nobody else's."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        end = os.pidfd_open(process.pid)
        with selectors.DefaultSelector() as selector:
            selector.register(end, selectors.EVENT_READ)
            selector.select(patience)
        os.close(end)
        os.killpg(process.pid, signal.SIGKILL)
