"""Enqueue at a steady rate while dispatchers are started as cron does, each taking over from the one before."""

import signal
import subprocess
import sys
import time

import mayfly


def main() -> None:
    seconds, minute, rate = (float(each) for each in sys.argv[1:4])
    dispatchers = [_start()]
    started, number = time.monotonic(), 0
    while (passed := time.monotonic() - started) < seconds:
        if passed >= minute * len(dispatchers):
            dispatchers.append(_start())
        mayfly.enqueue("waited", {"at": time.time()})
        number += 1
        time.sleep(max(0.0, started + number / rate - time.monotonic()))
    time.sleep(2)  # for the last jobs
    dispatchers[-1].send_signal(signal.SIGTERM)
    sys.exit(max(each.wait() for each in dispatchers))


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "dispatcher"])


if __name__ == "__main__":
    main()
