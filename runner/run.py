"""One job that runs beside the main thread, from its start to what became of it."""

from collections.abc import Callable
from math import inf

from mayfly.clock import monotonic
from mayfly.errors import HandlerEnded, Interrupted
from mayfly.job import Job
from mayfly.jobs.settlement import Settlement
from mayfly.outcome import Steer
from mayfly.registry import Handler
from mayfly.timing import timing
from runner.guard import Cause
from runner.invoke import RETURNED, Invoker, Ran, returned
from runner.lifelines import JobTransaction, ThreadLifeline

Commit = Callable[[JobTransaction, Settlement], None]  # settle a job in its handler's transaction, and commit both


class Run:
    """Shared by two threads without a lock: the main one writes down why it interrupts, the other how it ended."""

    def __init__(self, job: Job, handler: Handler, started: float) -> None:
        self.job = job
        self.handler = handler
        self.started = started
        self.limit = inf if handler.timeout is None else started + handler.timeout
        self.cause: Cause | None = None  # why it was interrupted
        self._interrupted_at = self._repeat_at = inf
        self.ended: float | None = None
        self.ran: Ran | None = None  # where the handler has returned
        self.error: BaseException | None = None  # where it has raised
        self.is_settled = False  # by the transaction that its handler asked for

    def due(self, ends_at: float) -> float:
        """When the main thread has to do something about it, if it has not ended by then."""
        if self.cause is None:
            return min(self.limit, ends_at)
        return min(self._repeat_at, self._interrupted_at + timing().hard_exit_seconds)

    def cannot_be_ended(self, now: float) -> bool:
        return now >= self._interrupted_at + timing().hard_exit_seconds

    def note_interruption(self, now: float, cause: Cause) -> None:
        if self.cause is None:
            self.cause, self._interrupted_at = cause, now
        self._repeat_at = now + timing().interrupt_repeat_seconds

    def note_return(self, result: object) -> None:
        """Called where the handler ran, and at once: what it has returned may be changed by others later."""
        self.note_end()
        self.ran = RETURNED if result is None else returned(self.handler, result)

    @property
    def transaction(self) -> JobTransaction | None:
        """What the handler asked for; a thread's alone."""
        lifeline = self.job.lifeline
        return lifeline.opened if isinstance(lifeline, ThreadLifeline) else None

    def note_end(self) -> None:
        self.ended = monotonic()

    @property
    def seconds(self) -> float:
        return (self.ended or monotonic()) - self.started


def judge(run: Run, invoker: Invoker) -> Ran:
    """What became of a run that has ended, or that is left behind. The words are those for plain functions."""
    ran = _judged(run, invoker)
    if run.job.trail is not None:
        invoker.write_last_progress(run.job)
    return ran._replace(duration_ms=round(run.seconds * 1000))


def _judged(run: Run, invoker: Invoker) -> Ran:
    job, handler, error = run.job, run.handler, run.error
    if error is None and run.ran is not None:
        return run.ran
    if run.cause is not None and (error is None or isinstance(error, Interrupted)):
        return invoker.interrupted(handler, job, run.seconds, run.cause)
    if isinstance(error, Steer):
        return invoker.steered(handler, job, error)
    if isinstance(error, HandlerEnded):
        return invoker.ended(job, error)
    return invoker.failed(job, error or Interrupted())
