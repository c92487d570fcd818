"""The event loop and the threads: whoever was started comes back once, however and whenever it is interrupted."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest

from mayfly.errors import Interrupted
from mayfly.job import Job
from mayfly.registry import Handler
from runner.concurrent.asyncio_jobs import AsyncExecutor
from runner.concurrent.executor import Execution, Mailbox
from runner.concurrent.thread_jobs import ThreadExecutor
from runner.guard import Cause, RunnerDeadline
from runner.job_runtime import AsyncRuntime, RuntimeContext, ThreadRuntime
from tests.factories import make_job

CONTEXT = RuntimeContext("worker-1-1", cast(RunnerDeadline, None))  # no test reads the deadline
ROUNDS = 300
PATIENCE_SECONDS = 60.0


def no_database(*_: object) -> NoReturn:
    raise AssertionError("nobody asked for a transaction")


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
    """About as long as it takes another thread to interrupt it."""
    return sum(range(20_000))


async def forever(_job: Job) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def threads(mailbox: Mailbox) -> ThreadExecutor:
    return ThreadExecutor(mailbox, lambda: ThreadRuntime(CONTEXT, no_database), no_database)


def test_a_thread_is_interrupted_in_its_handler(mailbox: Mailbox, threads: ThreadExecutor) -> None:
    """By an exception, at its next step."""
    run = make_run(spin)
    threads.start(run)
    while not mailbox.empty(0.01):
        interrupt(threads, run)

    assert isinstance(run.error, Interrupted)


def test_an_interruption_never_strikes_beside_the_handler(mailbox: Mailbox, threads: ThreadExecutor) -> None:
    """Wherever in its end it meets the thread: the run comes back, with its result or interrupted, and only once."""
    results = []
    for _ in range(ROUNDS):
        run = make_run(short)
        threads.start(run)
        interrupt(threads, run)
        interrupt(threads, run)
        assert mailbox.empty(PATIENCE_SECONDS) == [run]
        threads.dismiss(run)
        results.append("interrupted" if isinstance(run.error, Interrupted) else run.error or run.result)

    assert mailbox.empty(0) == []
    assert all(each == "interrupted" or getattr(each, "outcome", None) for each in results)


def test_a_thread_is_used_again_unless_it_was_interrupted(mailbox: Mailbox, threads: ThreadExecutor) -> None:
    """Who was may have left something behind."""

    def who(_job: Job) -> int:
        return threading.get_ident()

    def run_one(interrupted: bool = False) -> str | None:
        run = make_run(who)
        threads.start(run)
        assert mailbox.empty(PATIENCE_SECONDS) == [run]
        if interrupted:
            interrupt(threads, run)
        threads.dismiss(run)
        assert run.result is not None
        return run.result.outcome.result

    first, second = run_one(), run_one(interrupted=True)

    assert first == second
    assert run_one() != second


def test_a_task_is_cancelled_on_the_loop(mailbox: Mailbox) -> None:
    """As one that was interrupted, since we did it."""
    loop, run = (
        AsyncExecutor(mailbox, AsyncRuntime(CONTEXT, no_database)),
        make_run(forever, is_async=True),
    )
    loop.start(run)
    interrupt(loop, run)

    assert mailbox.empty(PATIENCE_SECONDS) == [run], "also where it had not taken its first step"
    assert isinstance(run.error, Interrupted)
    assert not loop.is_stuck(run)


def test_a_loop_that_is_blocked_is_stuck(mailbox: Mailbox) -> None:
    """It cannot even be told; that it could be told once, before it was blocked, does not count."""
    began, told, blocked, release = (threading.Event() for _ in range(4))

    async def ignore(_job: Job) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set()
            await asyncio.Event().wait()

    async def block(_job: Job) -> None:
        blocked.set()
        release.wait()

    loop, deaf, blocking = (
        AsyncExecutor(mailbox, AsyncRuntime(CONTEXT, no_database)),
        make_run(ignore, is_async=True),
        make_run(block, is_async=True),
    )
    loop.start(deaf)
    assert began.wait(PATIENCE_SECONDS)
    interrupt(loop, deaf)
    assert told.wait(PATIENCE_SECONDS)
    before = loop.is_stuck(deaf)
    loop.start(blocking)
    assert blocked.wait(PATIENCE_SECONDS)
    interrupt(loop, deaf)

    assert (before, loop.is_stuck(deaf), mailbox.empty(0)) == (False, True, [])
    release.set()
    assert mailbox.empty(PATIENCE_SECONDS)


def test_a_mailbox_waits_no_longer_than_it_is_told(mailbox: Mailbox) -> None:
    """Whatever is there comes at once, all of it, in order."""
    runs = [make_run(short) for _ in range(3)]
    assert mailbox.empty(0.01) == []
    for run in runs:
        mailbox.put(run)

    assert mailbox.empty(PATIENCE_SECONDS) == runs
    assert mailbox.empty(0) == []
