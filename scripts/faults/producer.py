"""Enqueue jobs until SIGTERM, like an application on one host. Every attempt and its result are recorded."""

import random
import signal
import sys
import time

import mayfly
from mayfly.errors import MayflyError
from scripts.faults.history import note
from scripts.faults.jobs import TYPES

stopped = False


def stop(_signal: int, _frame: object) -> None:
    global stopped
    stopped = True


def main() -> None:
    host, rate, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGTERM, stop)
    choice, number = random.Random(seed), 0  # noqa: S311 - repeatable
    while not stopped:
        number += 1
        key = f"{host}-{number}"
        type_name = f"torture_{choice.choice(TYPES)}"
        delay = choice.choice([None, None, None, 1, 3])
        note("enqueue", key=key, type=type_name)
        try:
            job_id = mayfly.enqueue(type_name, {"key": key}, delay=delay)
        except MayflyError as error:
            note("unknown", key=key, error=type(error).__name__)
            time.sleep(0.2)
        else:
            note("acknowledged", key=key, job=job_id)
        time.sleep(1 / rate)


if __name__ == "__main__":
    main()
