"""Unique keys under load: concurrent processes and runners never make two holders or lose the newest payload."""

import itertools
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from multiprocessing.process import BaseProcess

import pytest

import mayfly
from mayfly.db.database import Database
from mayfly.queue.insert import HOLDERS
from mayfly.queue.outcome import DONE, RELEASED, Outcome, Settlement
from mayfly.queue.settle import settle
from tests.database.factories import claim_jobs, in_threads, make_settler

pytestmark = pytest.mark.usefixtures("app")

FORK = multiprocessing.get_context("fork")
HOLDERS = f"SELECT COUNT(*) FROM mayfly_jobs WHERE unique_key = 'key' AND {HOLDERS}"


def work_once(database: Database, worker_id: str, outcome: Outcome) -> list[int]:
    """Claim and settle the due jobs; return the numbers in their payloads."""
    batch = claim_jobs(database, 10, worker_id=worker_id)
    settle(database, make_settler(worker_id), [Settlement(job, outcome, 1) for job in batch], {})
    return [job.payload["n"] for job in batch]


@pytest.mark.parametrize("unique", ["until done", "while pending", "for 1d"])
def test_many_processes_never_leave_two_holders(database: Database, unique: str) -> None:
    """They enqueue, keep and replace jobs while a runner claims them and releases some."""
    database.close()  # no open connection crosses the forks
    processes = [FORK.Process(target=enqueue_often, args=(unique, way)) for way in ("keep", "replace") * 2]
    for each in processes:
        each.start()
    counted = {watch(database, number) for number in while_any(processes)}

    assert counted <= {0, 1}
    assert [each.exitcode for each in processes] == [0] * 4


def enqueue_often(unique: str, on_conflict: str) -> None:
    for n in range(25):
        mayfly.enqueue("noop", {"n": n}, unique_key="key", unique=unique, on_conflict=on_conflict)
    os._exit(0)  # skips pytest's own exit handlers


def while_any(processes: Sequence[BaseProcess]) -> Iterator[int]:
    """Numbers as long as one of them is alive, and one more."""
    numbers = itertools.count()
    while any(each.is_alive() for each in processes):
        yield next(numbers)
    yield next(numbers)


def watch(database: Database, number: int) -> int:
    work_once(database, "worker-1", DONE if number % 2 else RELEASED)
    return int(database.read(lambda connection: connection.execute(HOLDERS).scalar()))


def test_a_debounce_under_load_loses_no_newest_payload(database: Database) -> None:
    """Payloads run in order, and the newest runs: each payload was run or replaced by a newer one."""
    ended = False

    def produce() -> list[int]:
        nonlocal ended
        for n in range(60):
            mayfly.enqueue("noop", {"n": n}, unique_key="key", unique="while pending", on_conflict="replace")
        ended = True
        return []

    def consume(worker_id: str) -> list[int]:
        seen: list[int] = []
        while not ended:
            seen += work_once(database, worker_id, DONE)
        return seen + work_once(database, worker_id, DONE)

    _, first, second = in_threads([produce, lambda: consume("worker-1"), lambda: consume("worker-2")])

    assert first == sorted(set(first))
    assert second == sorted(set(second))
    assert not set(first) & set(second)
    assert max(first + second) == 59
