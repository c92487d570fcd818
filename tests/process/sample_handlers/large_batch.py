"""A batch with thousands of children: their handlers, and the program that enqueues them."""

import os
import signal
import sys
import time

from mayfly import Dead, Job, batch, chain, enqueue, enqueue_many, handler


@handler("child", max_attempts=2)
def child(job: Job) -> None:
    """Each tenth enqueues a sibling, each seventh fails once, each hundredth is dead."""
    time.sleep(0.002)
    number = job.payload["number"]
    if number is None:
        return
    if number % 10 == 5:
        enqueue("child", {"number": None}, batch=job.batch)
    if number % 7 == 1 and job.attempt == 1:
        raise RuntimeError("once")
    if number % 100 == 99:
        raise Dead("for good")


@handler("first_step")
def first_step(_job: Job) -> int:
    return 42


@handler("second_step")
def second_step(job: Job) -> None:
    assert job.previous == 42


@handler("report")
def report(_job: Job) -> None:
    """Does nothing: the test checks that it was enqueued once."""


def fill(children: int) -> None:
    """One in a hundred is a chain of two."""
    chains = children // 100
    with batch("crowd", on_complete=("report", {"to": "ann"})):
        enqueue_many({"type": "child", "payload": {"number": each}} for each in range(children - chains))
        for _ in range(chains):
            chain("first_step", "second_step")


def fill_and_die(children: int) -> None:
    """Killed inside its `with` block."""
    with batch("crowd", on_complete=("report", {"to": "ann"})):
        enqueue_many({"type": "child", "payload": {"number": 0}} for _ in range(children))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    (fill_and_die if sys.argv[2:] == ["die"] else fill)(int(sys.argv[1]))
