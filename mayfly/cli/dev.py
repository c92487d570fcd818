"""`mayfly dev`: cron's part, played in the foreground."""

import os
import signal
import subprocess
import sys
from types import FrameType

from mayfly.clock import monotonic, pause
from mayfly.process import exits

MINUTE = 60.0


class _Stopped(Exception):
    """Ctrl-C, or a polite kill."""


def run_cycles(lanes: tuple[str, ...]) -> int:
    """Real cycles in real processes, one at once and then one a minute. Their log goes to this terminal."""
    command = [sys.executable, "-m", "dispatcher", *(word for lane in lanes for word in ("--lane", lane))]
    environment = {**os.environ, "LOG_TO": "stdout"}
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    cycle: subprocess.Popen[bytes] | None = None
    try:
        while True:
            began = monotonic()
            cycle = subprocess.Popen(command, env=environment)  # noqa: S603 - our own interpreter and module
            if cycle.wait() == exits.USAGE:
                return exits.USAGE
            pause(max(0.0, began + MINUTE - monotonic()))
    except _Stopped:
        return _end(cycle)


def _end(cycle: subprocess.Popen[bytes] | None) -> int:
    """The dispatcher gives its jobs back before it ends; a second Ctrl-C does not wait for that."""
    if cycle is not None and cycle.poll() is None:
        cycle.send_signal(signal.SIGTERM)
        try:
            cycle.wait()
        except _Stopped:
            cycle.kill()
            cycle.wait()
    return exits.SUCCESS


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise _Stopped
