"""One run of a job outside of the main thread, and the threads that run plain functions.

Only the main thread changes state, except for an Execution, which the thread of its handler also writes.
"""

import ctypes
import os
import select
import sys
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from math import inf
from queue import SimpleQueue
from threading import Lock, Thread
from types import CodeType, FrameType

from mayfly.clock import monotonic
from mayfly.errors import Interrupted
from mayfly.job import CURRENT_JOB, Job
from mayfly.process import timing
from mayfly.queue.outcome import Settlement, stack_text
from mayfly.registry import Handler
from runner.guard import Cause
from runner.invoke import NO_OBSERVERS, JobObservers, JobResult, arguments, encode_result
from runner.job_runtime import HandlerRuntime, JobTransaction

POLL_SECONDS = 0.05

Commit = Callable[[JobTransaction, Settlement], None]  # settles a job in its handler's transaction and commits both


@dataclass(eq=False)
class Execution:
    """One run. Shared without a lock: the main thread writes the interruption, the handler's thread the result."""

    job: Job
    handler: Handler
    started: float
    observers: JobObservers = NO_OBSERVERS
    thread_id: int | None = None  # where its handler runs
    transaction: JobTransaction | None = None  # of a handler in a thread
    cause: Cause | None = None  # why it was interrupted
    stack: str = ""  # where its handler was then
    interrupted_at: float = inf
    repeat_at: float = inf
    was_reached: bool = True  # False: its event loop has not run since the last interruption, because a job blocks it
    ended: float | None = None
    result: JobResult | None = None  # if the handler has returned
    error: BaseException | None = None  # if it has raised
    is_settled: bool = False  # in its handler's job.transaction()

    @property
    def timeout_at(self) -> float:
        return inf if self.handler.timeout is None else self.started + self.handler.timeout

    @property
    def gives_up_at(self) -> float:
        """When it is left behind because it could not be interrupted."""
        return self.interrupted_at + timing().hard_exit_seconds

    def due(self, ends_at: float) -> float:
        """When the main thread must interrupt it, or interrupt it again."""
        return min(self.timeout_at, ends_at) if self.cause is None else min(self.repeat_at, self.gives_up_at)

    def note_interruption(self, now: float, cause: Cause) -> None:
        if self.cause is None:
            self.cause, self.interrupted_at = cause, now
        self.repeat_at = now + timing().interrupt_repeat_seconds

    def note_return(self, result: object) -> None:
        """Encoded at once, in the handler's thread: other threads may change the object later."""
        self.ended = monotonic()
        self.result = encode_result(self.handler, result)

    @property
    def seconds(self) -> float:
        return (self.ended or monotonic()) - self.started


class Mailbox:
    """Runs that have ended: filled by other threads, emptied by the main one.

    Uses an eventfd: SimpleQueue.get(timeout) may block forever if a signal arrives just as the timeout expires.
    """

    def __init__(self) -> None:
        self._ended: deque[Execution] = deque()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._eventfd, select.POLLIN)

    def put(self, run: Execution) -> None:
        self._ended.append(run)
        os.eventfd_write(self._eventfd, 1)

    def empty(self, seconds: float) -> list[Execution]:
        """All of them, as soon as there is one or the time is over."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            os.eventfd_read(self._eventfd)
        return [self._ended.popleft() for _ in range(len(self._ended))]


class ThreadExecutor:
    """Threads that are started on demand and reused. Called by the main thread."""

    def __init__(self, mailbox: Mailbox, make_runtime: Callable[[], HandlerRuntime], commit: Commit) -> None:
        self._mailbox = mailbox
        self._make_runtime = make_runtime
        self._commit = commit
        self._idle: list[_Worker] = []
        self._at_work: dict[Execution, _Worker] = {}

    def start(self, run: Execution) -> None:
        runtime = run.job.runtime = self._make_runtime()
        run.transaction = runtime.job_transaction
        worker = self._at_work[run] = self._idle.pop() if self._idle else _Worker(self._mailbox, self._commit)
        run.thread_id = worker.ident
        worker.inbox.put(run)

    def interrupt(self, run: Execution) -> None:
        self._at_work[run].interrupt(run)

    def stack(self, run: Execution) -> str:
        return stack_below(_Worker._call.__code__, thread_frame(run))

    def dismiss(self, run: Execution) -> None:
        """The thread is free again; a thread that was interrupted is not reused."""
        worker = self._at_work.pop(run)
        if run.cause is None and worker.is_alive():
            self._idle.append(worker)
        else:
            worker.inbox.put(None)

    def blocking_run(self) -> Execution | None:
        """None: threads do not block each other."""


class _Worker(Thread):
    def __init__(self, mailbox: Mailbox, commit: Commit) -> None:
        super().__init__(name="handler", daemon=True)
        self.inbox: SimpleQueue[Execution | None] = SimpleQueue()
        self._mailbox = mailbox
        self._commit = commit
        self._gate = Lock()
        self._running: Execution | None = None  # while its handler runs: only then may Interrupted be raised
        self._was_interrupted = False
        self.start()

    def run(self) -> None:
        while (run := self.inbox.get()) is not None:
            try:
                try:
                    self._call(run)
                except Interrupted as error:  # raised while the handler was ending
                    run.error = run.error or error
                _commit_or_rollback(run, self._commit)
            finally:
                self._mailbox.put(run)

    def interrupt(self, run: Execution) -> None:
        """Raises at the next Python instruction; a handler that is blocked in C code is not interrupted."""
        if self._gate.acquire(timeout=POLL_SECONDS):  # otherwise it is just ending, and the main thread must not wait
            if self._running is run:
                self._was_interrupted = True
                _raise_in(self.ident or 0, Interrupted)
            self._gate.release()

    def _call(self, run: Execution) -> None:
        try:
            self._set_running(run)
            context = copy_context()
            context.run(CURRENT_JOB.set, run.job)
            context.run(run.observers.before, run.job)
            result = context.run(run.handler.function, *arguments(run.handler, run.job))
            self._set_running(None)
            run.note_return(result)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not the thread's end
            run.error = error
            self._set_running(None)
            run.ended = monotonic()

    def _set_running(self, run: Execution | None) -> None:
        with self._gate:
            self._running = run
        if run is None and self._was_interrupted:
            self._drop_pending_exception()

    def _drop_pending_exception(self) -> None:
        """It would be raised in the executor, but only the handler may be interrupted.

        Another one replaces it and is raised here. Removing it would leave the eval breaker of CPython 3.11 set if
        none is pending, and a call that a debugger or a coverage tool traces would loop endlessly.
        """
        with suppress(Interrupted):
            _raise_in(self.ident or 0, Interrupted)
            while True:
                pass


def thread_frame(run: Execution) -> FrameType | None:
    """The innermost frame of the thread in which it runs."""
    return sys._current_frames().get(run.thread_id or 0)


def stack_below(caller: CodeType, frame: FrameType | None) -> str:
    """The calls inside the function that `caller` has called; "" if it has just returned."""
    frames: list[tuple[FrameType, int]] = []
    while frame is not None and frame.f_code is not caller:
        frames.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "" if frame is None else stack_text(traceback.StackSummary.extract(reversed(frames)))


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _commit_or_rollback(run: Execution, commit: Commit) -> None:
    """Called in the handler's thread: its writes in job.transaction() commit with its `done`, or are rolled back."""
    if run.transaction is None or run.transaction.connection is None:
        return
    if run.error is not None or run.result is None:
        run.transaction.rollback(run.error or Interrupted())
        return
    try:
        commit(run.transaction, Settlement(run.job, run.result.outcome, round(run.seconds * 1000)))
        run.is_settled = True
    except Exception as error:  # noqa: BLE001 - the lease is lost, or the handler has broken its transaction
        run.error = error
