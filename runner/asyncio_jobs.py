"""Run `async def` handlers as tasks on one event loop, in its own thread."""

import asyncio
import traceback
from contextlib import suppress
from functools import partial
from threading import Thread
from types import FrameType

from mayfly.clock import monotonic
from mayfly.errors import Interrupted
from mayfly.job import CURRENT_JOB
from mayfly.queue.outcome import stack_text
from runner.execution import Execution, Mailbox, stack_below, thread_frame
from runner.invoke import arguments
from runner.job_runtime import HandlerRuntime


class AsyncExecutor:
    """Public methods are called by the main thread, private ones on the loop."""

    def __init__(self, mailbox: Mailbox, runtime: HandlerRuntime) -> None:
        self._mailbox = mailbox
        self._runtime = runtime
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[Execution, asyncio.Task[None]] = {}  # changed on the loop only
        self._thread = Thread(target=self._run_loop, name="event loop", daemon=True)
        self._thread.start()

    def start(self, run: Execution) -> None:
        run.job.runtime, run.thread_id = self._runtime, self._thread.ident
        self._loop.call_soon_threadsafe(self._begin, run)

    def interrupt(self, run: Execution) -> None:
        run.was_reached = False
        self._loop.call_soon_threadsafe(self._cancel, run)

    def stack(self, run: Execution) -> str:
        task = self._tasks.get(run)
        if task is None:
            return ""
        return stack_below(_call.__code__, thread_frame(run)) if self.blocking_run() is run else _await_stack(task)

    def dismiss(self, run: Execution) -> None:
        """Nothing to do."""

    def blocking_run(self) -> Execution | None:
        """The run whose task is executed now; None if the current task was started by a handler."""
        task = asyncio.current_task(self._loop)
        return next((run for run, each in list(self._tasks.items()) if each is task), None)

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
        run.was_reached = True
        if run in self._tasks:
            self._tasks[run].cancel()

    def _end(self, run: Execution, task: asyncio.Task[None]) -> None:
        """Called for every task, also one that was cancelled before its first step."""
        del self._tasks[run]
        cancelled = task.cancelled() or isinstance(run.error, asyncio.CancelledError)
        if cancelled and run.cause is not None:
            run.error = Interrupted()
        self._mailbox.put(run)


def _await_stack(task: "asyncio.Task[None]") -> str:
    """The chain of coroutines that wait for each other, without the first, which is _call."""
    frames: list[tuple[FrameType, int]] = []
    awaited = getattr(task.get_coro(), "cr_await", None)
    while (frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)) is not None:
        frames.append((frame, frame.f_lineno))
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return stack_text(traceback.StackSummary.extract(frames))


async def _call(run: Execution) -> None:
    CURRENT_JOB.set(run.job)  # each task has its own context
    try:
        run.observers.before(run.job)
        run.note_return(await run.handler.function(*arguments(run.handler, run.job)))
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not the loop's end
        run.error, run.ended = error, monotonic()
