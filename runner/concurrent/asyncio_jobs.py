"""Run `async def` handlers: as tasks on one event loop, in a thread of its own."""

import asyncio
import sys
from contextlib import suppress
from functools import partial
from threading import Thread
from types import FrameType

from mayfly.errors import Interrupted
from mayfly.job import CURRENT_JOB
from runner.concurrent.executor import Execution, Mailbox
from runner.invoke import arguments
from runner.job_runtime import AsyncRuntime


class AsyncExecutor:
    """Public methods are called by the main thread, private ones on the loop."""

    def __init__(self, mailbox: Mailbox, runtime: AsyncRuntime) -> None:
        self._mailbox = mailbox
        self._runtime = runtime
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[Execution, asyncio.Task[None]] = {}  # touched on the loop only
        self._reached: set[Execution] = set()  # by the last interruption
        self._thread = Thread(target=self._run_loop, name="event loop", daemon=True)
        self._thread.start()

    def start(self, run: Execution) -> None:
        run.job.runtime = self._runtime
        self._loop.call_soon_threadsafe(self._begin, run)

    def interrupt(self, run: Execution) -> None:
        self._reached.discard(run)
        self._loop.call_soon_threadsafe(self._cancel, run)

    def dismiss(self, run: Execution) -> None:
        self._reached.discard(run)

    def is_stuck(self, run: Execution) -> bool:
        """The loop has not run since the last interruption: a job blocks it, this one or another."""
        return run not in self._reached

    def blocking_run(self) -> Execution | None:
        """The run whose task is executed now; None if that is a task which a handler has started."""
        task = asyncio.current_task(self._loop)
        return next((run for run, each in list(self._tasks.items()) if each is task), None)

    def frame_of(self, _run: Execution) -> FrameType | None:
        """Where the loop is: in the handler that blocks it."""
        return sys._current_frames().get(self._thread.ident or 0)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            # A SystemExit in a task that a handler started ends run_forever; the awaiting task gets it too.
            with suppress(BaseException):
                self._loop.run_forever()

    def _begin(self, run: Execution) -> None:
        task = self._tasks[run] = self._loop.create_task(_call(run))
        task.add_done_callback(partial(self._end, run))

    def _cancel(self, run: Execution) -> None:
        self._reached.add(run)
        if run in self._tasks:
            self._tasks[run].cancel()

    def _end(self, run: Execution, task: asyncio.Task[None]) -> None:
        """The one way out: also of a task that was cancelled before its first step."""
        del self._tasks[run]
        cancelled = task.cancelled() or isinstance(run.error, asyncio.CancelledError)
        if cancelled and run.cause is not None:
            run.error = Interrupted()
        self._mailbox.put(run)


async def _call(run: Execution) -> None:
    CURRENT_JOB.set(run.job)  # a task has a context of its own
    try:
        if run.observers is not None:
            run.observers.before(run.job)
        run.note_return(await run.handler.function(*arguments(run.handler, run.job)))
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not the loop's end
        run.error = error
        run.note_end()
