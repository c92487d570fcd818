"""Enqueue jobs at random times while dispatchers are started as cron does, each taking over from the one before.

Prints the CPU seconds of the dispatchers and their runners.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import mayfly


def main() -> None:
    seconds, minute, rate = (float(each) for each in sys.argv[1:4])
    uniform = random.Random(1).uniform  # noqa: S311 - not for security
    times = sorted(uniform(number, number + 1) / rate for number in range(max(1, round(seconds * rate))))
    first_at = time.monotonic()
    dispatchers = [_start()]
    _wait_until_lingering()
    started = time.monotonic()
    for at in [*times, seconds]:
        while (now := time.monotonic()) < started + at:
            if now >= first_at + minute * len(dispatchers):
                dispatchers.append(_start())
            time.sleep(min(started + at, max(now, first_at + minute * len(dispatchers))) - now)
        if at < seconds:
            mayfly.enqueue("waited", {"at": time.time()})
    time.sleep(2)  # for the last jobs
    dispatchers[-1].send_signal(signal.SIGTERM)
    ended = [os.wait4(each.pid, 0) for each in dispatchers]
    sys.stdout.write(f"{sum(usage.ru_utime + usage.ru_stime for _pid, _status, usage in ended)}\n")
    sys.exit(max(os.waitstatus_to_exitcode(status) for _pid, status, _usage in ended))


def _wait_until_lingering() -> None:
    log = Path(os.environ["MAYFLY_HOME"]) / "logs" / "dispatcher.log"
    while not log.exists() or "Lingering until" not in log.read_text():
        time.sleep(0.01)


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "dispatcher"])


if __name__ == "__main__":
    main()
