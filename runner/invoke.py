"""Run one job: find its handler, validate its payload, call it under the guard, and decide its outcome."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mayfly import json_text
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import (
    BadHandler,
    CancelRequested,
    DatabaseAway,
    DatabaseBusy,
    DatabaseCrowded,
    DatabaseFull,
    DatabaseTooSlow,
    HandlerEnded,
    Interrupted,
    SliceEnded,
)
from mayfly.job import CURRENT_JOB, Job
from mayfly.process.status_page import StatusPage
from mayfly.queue import policy
from mayfly.queue.failure import Failure
from mayfly.queue.options import describe_payload_errors
from mayfly.queue.outcome import DONE, RELEASED, RESULT_LIMIT, Dead, JobControl, Outcome, OutcomeKind
from mayfly.queue.policy import Backoff, Interruption, RetryContext
from mayfly.registry import ON_DEAD_TYPE, Handler, Registry
from runner.guard import Cause, Guard
from runner.job_runtime import MainThreadRuntime


class JobResult(NamedTuple):
    """The outcome of one job, and how long its handler took; None when it was never called."""

    outcome: Outcome
    duration_ms: int | None = None
    cause: Cause | None = None  # why it was interrupted
    dropped: str | None = None  # why its result was not stored
    commit_now: bool = False  # before the next job starts
    unknown_type: bool = False  # no handler, and perhaps only because a module is broken


RETURNED = JobResult(DONE)
# Of Mayfly's own connection, in job.transaction(), job.read() and the like: not the handler's failure.
DATABASE_ERRORS = (DatabaseAway, DatabaseBusy, DatabaseCrowded, DatabaseFull, DatabaseTooSlow)


class PayloadError(Dead):
    """A payload that does not fit its handler's model; `enqueue` would have refused it."""


class JobObserver(Protocol):
    """Called around each run of a handler. Neither call raises, except for what ends the job itself."""

    def before(self, job: Job) -> None:
        """In the handler's thread or task, and on its time."""

    def after(self, job: Job, outcome: Outcome) -> None:
        """In the main thread."""


@dataclass(frozen=True)
class JobObservers:
    """Tracing and hooks, the outermost first. Jobs of type ON_DEAD_TYPE are Mayfly's own and not observed."""

    observers: Sequence[JobObserver]

    def before(self, job: Job) -> None:
        if job.type != ON_DEAD_TYPE:
            for each in self.observers:
                each.before(job)

    def after(self, job: Job, outcome: Outcome) -> None:
        if job.type != ON_DEAD_TYPE:
            for each in reversed(self.observers):
                each.after(job, outcome)


@dataclass(frozen=True)
class Invoker:
    """Everything that running a job needs and that does not change between jobs."""

    registry: Registry
    database: Database
    runtime: MainThreadRuntime
    guard: Guard
    page: StatusPage
    default_backoff: Backoff
    window_seconds: float
    random: Callable[[], float]
    on_dead: Callable[[Job], None] | None = None  # called before a death is written; set with HOOKS_ON_DEAD
    observers: JobObservers | None = None

    def run(self, job: Job) -> JobResult:
        """The one place where foreign code runs: the handler's, and that of its payload's model."""
        handler = self.registry.handlers.get(job.type)
        if handler is None:
            return self._unknown(job)
        guard, observers = self.guard, self.observers
        job.runtime = self.runtime
        started = monotonic()
        self.page.start(job.id, started, handler.timeout)
        result: JobResult | None = None
        CURRENT_JOB.set(job)
        try:
            try:
                if handler.timeout is not None:
                    guard.start_timeout(handler.timeout)
                guard.armed = True  # from here on the guard's timer raises Interrupted
                if observers is not None:
                    observers.before(job)
                if handler.takes_payload:
                    returned = handler.function(job, validated_payload(handler, job))
                else:
                    returned = handler.function(job)
            finally:  # at once: a later signal must not interrupt the runner itself
                guard.armed = False
                guard.restore_signals()
            result = RETURNED if returned is None else encode_result(handler, returned)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not our end
            result = self.after_error(handler, job, error, monotonic() - started)
        finally:
            ended = monotonic()
            CURRENT_JOB.set(None)
            if observers is not None and result is not None:  # while the page names the job: a hook may hang
                observers.after(job, result.outcome)
            self.page.finish(job.id, ended, result is not None and result.outcome.kind is OutcomeKind.DONE)
            if handler.timeout is not None:
                guard.end_timeout()
        if job.progress_state is not None:
            self.write_last_progress(job)
        duration_ms, commit_now = round((ended - started) * 1000), handler.ack == "each"
        if result is RETURNED:  # to replace a tuple's fields costs more than to make one
            return JobResult(DONE, duration_ms, commit_now=commit_now)
        return result._replace(duration_ms=duration_ms, commit_now=commit_now)

    def after_error(self, handler: Handler, job: Job, error: BaseException, seconds: float) -> JobResult:
        """Nothing that its handler wrote in job.transaction() stays."""
        self.runtime.rollback(error)
        match error:
            case Interrupted():
                return self.interrupted(handler, job, seconds, self.guard.cause)
            case JobControl():
                return self.controlled(handler, job, error)
            case HandlerEnded():
                return self.ended(job, error)
        return self.failed(job, error)

    def failed(self, job: Job, error: BaseException) -> JobResult:
        self.runtime.rollback(error)
        retry = self._retry_context(self.registry.get(job.type))
        decide = policy.after_database_error if isinstance(error, DATABASE_ERRORS) else policy.after_failure
        return self._result(job, decide(job, Failure.from_error(error), retry))

    def interrupted(self, handler: Handler, job: Job, seconds: float, cause: Cause) -> JobResult:
        if cause in (Cause.STOP, Cause.STUCK):
            return self._result(job, policy.after_stop(job), cause)
        interruption = Interruption(seconds, self.window_seconds, handler.timeout)
        return self._result(job, policy.after_interruption(job, interruption, self._retry_context(handler)), cause)

    def controlled(self, handler: Handler, job: Job, control: JobControl) -> JobResult:
        """Its handler raised Retry, Snooze, Cancel or Dead."""
        failure = Failure.from_reason(str(control) or type(control).__name__)
        return self._result(job, policy.after_control(job, control, failure, self._retry_context(handler)))

    def ended(self, job: Job, error: HandlerEnded) -> JobResult:
        """Ended at a checkpoint. If the lease is lost, settling changes no row and logs that."""
        match error:
            case SliceEnded():
                return self._result(job, policy.after_slice(job))
            case CancelRequested(reason=reason):
                return JobResult(policy.after_cancel(reason))
        return JobResult(RELEASED)

    def write_last_progress(self, job: Job) -> None:
        """What the throttle held back. Any trouble with the job or the database is met by settling too."""
        with suppress(Exception, HandlerEnded):
            if job.progress_state is not None:
                job.progress_state.write(job)

    def _unknown(self, job: Job) -> JobResult:
        """While a module is broken the handler may be in it: the job is released, at no cost."""
        if self.registry.failures:
            return JobResult(RELEASED, unknown_type=True)
        hint = self.registry.did_you_mean(job.type)
        failure = Failure.from_reason(f"no handler for type {job.type!r}{hint and f'.{hint}'}")
        return self._result(job, policy.after_failure(job, failure, self._retry_context(None)))

    def _result(self, job: Job, outcome: Outcome, cause: Cause | None = None) -> JobResult:
        if outcome.kind is OutcomeKind.DEAD and self.on_dead is not None:
            self.on_dead(job)
        return JobResult(outcome, cause=cause)

    def _retry_context(self, handler: Handler | None) -> RetryContext:
        backoff = handler.backoff(self.default_backoff) if handler else self.default_backoff
        return RetryContext(self.database.clock.now(), backoff, self.random())


def validated_payload(handler: Handler, job: Job) -> Any:
    try:
        payload = job.payload
        return handler.model.model_validate(payload) if handler.model else payload
    except ValueError as error:
        raise PayloadError(f"the payload does not fit {handler.where}: {describe_payload_errors(error)}") from error


def arguments(handler: Handler, job: Job) -> tuple[Any, ...]:
    return (job, validated_payload(handler, job)) if handler.takes_payload else (job,)


def encode_result(handler: Handler, returned: object) -> JobResult:
    """The result as JSON. One that cannot be stored is dropped with a note: the work has been done all the same."""
    try:
        text = json_text.encode(returned)
    except (TypeError, ValueError, RecursionError) as error:
        if hasattr(returned, "__await__"):  # a wrapper around an `async def`: the work has not even begun
            reason = "returned an awaitable: declare the handler itself as `async def`"
            raise BadHandler(handler.type, handler.where, reason) from None
        return _without_result(f"it is no JSON ({error})")
    if len(text.encode()) > RESULT_LIMIT:
        return _without_result(f"it has {len(text.encode()):,} bytes, {RESULT_LIMIT:,} are kept")
    return JobResult(policy.after_return(text))


def _without_result(reason: str) -> JobResult:
    return JobResult(policy.after_return(None, note=f"result dropped: {reason}"), dropped=reason)
