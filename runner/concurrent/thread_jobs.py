"""Run plain functions in threads, and interrupt them there as far as Python can."""

import ctypes
import sys
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Lock, Thread
from types import FrameType

from mayfly.errors import Interrupted
from mayfly.job import CURRENT_JOB
from mayfly.queue.outcome import Settlement
from runner.concurrent.executor import Commit, Execution, Mailbox
from runner.invoke import arguments
from runner.job_runtime import ThreadRuntime

POLL_SECONDS = 0.05


class ThreadExecutor:
    """Threads that are started on demand and used again. Called by the main thread."""

    def __init__(self, mailbox: Mailbox, make_runtime: Callable[[], ThreadRuntime], commit: Commit) -> None:
        self._mailbox = mailbox
        self._make_runtime = make_runtime
        self._commit = commit
        self._idle: list[_Worker] = []
        self._at_work: dict[Execution, _Worker] = {}

    def start(self, run: Execution) -> None:
        run.job.runtime = self._make_runtime()
        worker = self._at_work[run] = self._idle.pop() if self._idle else _Worker(self._mailbox, self._commit)
        worker.inbox.put(run)

    def interrupt(self, run: Execution) -> None:
        self._at_work[run].interrupt(run)

    def dismiss(self, run: Execution) -> None:
        """The thread is free again; one that was interrupted is not used again."""
        worker = self._at_work.pop(run)
        if run.cause is None and worker.is_alive():
            self._idle.append(worker)
        else:
            worker.inbox.put(None)

    def is_stuck(self, _run: Execution) -> bool:
        return False

    def blocking_run(self) -> Execution | None:
        return None

    def frame_of(self, run: Execution) -> FrameType | None:
        return sys._current_frames().get(self._at_work[run].ident or 0)


class _Worker(Thread):
    def __init__(self, mailbox: Mailbox, commit: Commit) -> None:
        super().__init__(name="handler", daemon=True)
        self.inbox: SimpleQueue[Execution | None] = SimpleQueue()
        self._mailbox = mailbox
        self._commit = commit
        self._gate = Lock()
        self._running: Execution | None = None  # while its handler runs: only then may Interrupted be raised
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
        """Raised at the next instruction in Python; a handler that is blocked in C does not notice."""
        if self._gate.acquire(timeout=POLL_SECONDS):  # else it is just ending, and the main thread must not wait
            if self._running is run:
                _raise_in(self.ident or 0, Interrupted)
            self._gate.release()

    def _call(self, run: Execution) -> None:
        try:
            self._set_running(run)
            context = copy_context()
            context.run(CURRENT_JOB.set, run.job)
            if run.observers is not None:
                context.run(run.observers.before, run.job)
            result = context.run(run.handler.function, *arguments(run.handler, run.job))
            self._set_running(None)
            run.note_return(result)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not the thread's end
            run.error = error
            self._set_running(None)
            run.note_end()

    def _set_running(self, run: Execution | None) -> None:
        with self._gate:
            self._running = run
        if run is None:
            _raise_in(self.ident or 0, None)  # one that is pending would be raised in the executor itself


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def _commit_or_rollback(run: Execution, commit: Commit) -> None:
    """Still in its own thread: what it wrote in job.transaction() commits with its `done`, or is rolled back."""
    transaction = run.transaction
    if transaction is None or transaction.connection is None:
        return
    if run.error is not None or run.result is None:
        transaction.rollback(run.error or Interrupted())
        return
    try:
        commit(transaction, Settlement(run.job, run.result.outcome, round(run.seconds * 1000)))
        run.is_settled = True
    except Exception as error:  # noqa: BLE001 - the lease is lost, or the handler has broken its transaction
        run.error = error
