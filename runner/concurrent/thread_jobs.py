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
    """A place for runs: threads that are started on demand and used again. Called by the main thread."""

    def __init__(self, mailbox: Mailbox, lifeline: Callable[[], ThreadRuntime], commit: Commit) -> None:
        self._mailbox = mailbox
        self._lifeline = lifeline
        self._commit = commit
        self._idle: list[_Worker] = []
        self._at_work: dict[Execution, _Worker] = {}

    def start(self, run: Execution) -> None:
        run.job.lifeline = self._lifeline()
        worker = self._at_work[run] = self._idle.pop() if self._idle else _Worker(self._mailbox, self._commit)
        worker.inbox.put(run)

    def interrupt(self, run: Execution) -> None:
        self._at_work[run].interrupt(run)

    def dismiss(self, run: Execution) -> None:
        """The thread is free again; one that was interrupted has seen enough."""
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
        self._door = Lock()
        self._inside: Execution | None = None  # whose handler runs: only there may an interruption strike
        self.start()

    def run(self) -> None:
        while (run := self.inbox.get()) is not None:
            try:
                try:
                    self._call(run)
                except Interrupted as error:  # struck while the door was being shut
                    run.error = run.error or error
                _conclude(run, self._commit)
            finally:
                self._mailbox.put(run)

    def interrupt(self, run: Execution) -> None:
        """Raised at the next step in Python; whoever is blocked in C does not hear of it."""
        if self._door.acquire(timeout=POLL_SECONDS):  # else it is just ending; the main thread must not wait
            if self._inside is run:
                _raise_in(self.ident or 0, Interrupted)
            self._door.release()

    def _call(self, run: Execution) -> None:
        try:
            self._admit(run)
            context = copy_context()
            context.run(CURRENT_JOB.set, run.job)
            if run.handler.hooks is not None:
                context.run(run.handler.hooks.before, run.job)
            result = context.run(run.handler.function, *arguments(run.handler, run.job))
            self._admit(None)
            run.note_return(result)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not the thread's end
            run.error = error
            self._admit(None)
            run.note_end()

    def _admit(self, run: Execution | None) -> None:
        with self._door:
            self._inside = run
        if run is None:
            _raise_in(self.ident or 0, None)  # what was raised and has not struck yet would strike us


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    raised = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def _conclude(run: Execution, commit: Commit) -> None:
    """Still in its own thread: what it wrote in job.transaction() commits with its `done`, or is undone."""
    transaction = run.transaction
    if transaction is None or transaction.connection is None:
        return
    if run.error is not None or run.ran is None:
        transaction.undo(run.error or Interrupted())
        return
    try:
        commit(transaction, Settlement(run.job, run.ran.outcome, round(run.seconds * 1000)))
        run.is_settled = True
    except Exception as error:  # noqa: BLE001 - the lease is lost, or the handler has broken its transaction
        run.error = error
