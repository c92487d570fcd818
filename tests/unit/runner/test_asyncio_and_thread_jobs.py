"""The event loop and the threads: every started job returns exactly once, however it is interrupted."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn, cast

import pytest

from mayfly.db.database import Database
from mayfly.errors import Interrupted
from mayfly.job import Job
from mayfly.registry import Handler
from runner.asyncio_jobs import AsyncExecutor
from runner.execution import Execution, Mailbox, ThreadExecutor
from runner.guard import Cause, Guard
from runner.job_runtime import HandlerRuntime
from tests.factories import make_job

RUNTIME = HandlerRuntime(cast(Database, None), "worker-1-1", cast(Guard, None))  # not used by these tests
ROUNDS = 300
TIMEOUT_SECONDS = 60.0


def no_commit(*_: object) -> NoReturn:
    raise AssertionError("no transaction was requested")


def make_run(function: Callable[..., Any], is_async: bool = False) -> Execution:
    return Execution(
        make_job(), Handler("x", function, is_async=is_async, threads=None if is_async else 5), started=0.0
    )


def interrupt(place: AsyncExecutor | ThreadExecutor, run: Execution) -> None:
    run.note_interruption(0.0, Cause.TIMEOUT)
    place.interrupt(run)


def spin(_job: Job) -> None:
    while True:
        pass


def short(_job: Job) -> int:
    """Takes about as long as another thread needs to interrupt it."""
    return sum(range(20_000))


async def forever(_job: Job) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def threads(mailbox: Mailbox) -> ThreadExecutor:
    return ThreadExecutor(mailbox, lambda: replace(RUNTIME), no_commit)


def test_a_thread_is_interrupted_in_its_handler(mailbox: Mailbox, threads: ThreadExecutor) -> None:
    """The exception is raised at its next bytecode."""
    run = make_run(spin)
    threads.start(run)
    while not mailbox.empty(0.01):
        interrupt(threads, run)

    assert isinstance(run.error, Interrupted)


def test_an_interruption_never_hits_code_outside_the_handler(mailbox: Mailbox, threads: ThreadExecutor) -> None:
    """Whenever it arrives, the job returns exactly once, with its result or interrupted."""
    results = []
    for _ in range(ROUNDS):
        run = make_run(short)
        threads.start(run)
        interrupt(threads, run)
        interrupt(threads, run)
        assert mailbox.empty(TIMEOUT_SECONDS) == [run]
        threads.dismiss(run)
        results.append("interrupted" if isinstance(run.error, Interrupted) else run.error or run.result)

    assert mailbox.empty(0) == []
    assert all(each == "interrupted" or getattr(each, "outcome", None) for each in results)


def test_a_thread_is_reused_unless_it_was_interrupted(mailbox: Mailbox, threads: ThreadExecutor) -> None:
    """An interrupted thread may be left in an undefined state."""

    def thread_id(_job: Job) -> int:
        return threading.get_ident()

    def run_one(interrupted: bool = False) -> str | None:
        run = make_run(thread_id)
        threads.start(run)
        assert mailbox.empty(TIMEOUT_SECONDS) == [run]
        if interrupted:
            interrupt(threads, run)
        threads.dismiss(run)
        assert run.result is not None
        return run.result.outcome.result

    first, second = run_one(), run_one(interrupted=True)

    assert first == second
    assert run_one() != second


def test_a_task_is_cancelled_on_the_loop(mailbox: Mailbox) -> None:
    """The job counts as interrupted, since the runner cancelled the task."""
    loop, run = (
        AsyncExecutor(mailbox, replace(RUNTIME, is_on_loop=True)),
        make_run(forever, is_async=True),
    )
    loop.start(run)
    interrupt(loop, run)

    assert mailbox.empty(TIMEOUT_SECONDS) == [run], "also before its first step"
    assert isinstance(run.error, Interrupted)
    assert run.was_reached


def test_a_job_on_a_blocked_loop_is_stuck(mailbox: Mailbox) -> None:
    """A blocked loop cannot deliver a cancellation; one delivered before it blocked does not count."""
    began, notified, blocked, release = (threading.Event() for _ in range(4))

    async def ignore(_job: Job) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            notified.set()
            await asyncio.Event().wait()

    async def block(_job: Job) -> None:
        blocked.set()
        release.wait()

    loop, deaf, blocking = (
        AsyncExecutor(mailbox, replace(RUNTIME, is_on_loop=True)),
        make_run(ignore, is_async=True),
        make_run(block, is_async=True),
    )
    loop.start(deaf)
    assert began.wait(TIMEOUT_SECONDS)
    interrupt(loop, deaf)
    assert notified.wait(TIMEOUT_SECONDS)
    before = deaf.was_reached
    loop.start(blocking)
    assert blocked.wait(TIMEOUT_SECONDS)
    interrupt(loop, deaf)

    assert (before, deaf.was_reached, mailbox.empty(0)) == (True, False, [])
    release.set()
    assert mailbox.empty(TIMEOUT_SECONDS)


def test_a_mailbox_waits_no_longer_than_its_timeout(mailbox: Mailbox) -> None:
    """Results that are there are returned at once, all of them, in order."""
    runs = [make_run(short) for _ in range(3)]
    assert mailbox.empty(0.01) == []
    for run in runs:
        mailbox.put(run)

    assert mailbox.empty(TIMEOUT_SECONDS) == runs
    assert mailbox.empty(0) == []
