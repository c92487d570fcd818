"""Run one job: find its handler, validate the payload, call it under the guard with its hooks, decide the outcome."""

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

from mayfly import errors, json_text, log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.job import CURRENT_JOB, Job
from mayfly.log import Log
from mayfly.monitoring.hooks import AFTER, BEFORE, Hook, find_hooks
from mayfly.monitoring.redact import first_line
from mayfly.process.status_page import StatusPage
from mayfly.queue import policy
from mayfly.queue.options import describe_payload_errors
from mayfly.queue.outcome import (
    DONE,
    RELEASED,
    RESULT_LIMIT,
    Dead,
    Failure,
    JobControl,
    Outcome,
    OutcomeKind,
    stack_text,
)
from mayfly.queue.policy import Backoff, Interruption, RetryContext, UnknownType
from mayfly.registry import ON_DEAD_TYPE, Handler, Registry
from mayfly.settings import Settings
from runner.guard import Cause, Guard
from runner.job_runtime import HandlerRuntime

OWN_DIRECTORY = Path(__file__).parent


@dataclass(slots=True)  # not frozen: replace() of a frozen one costs a drain 10 % of the runner's CPU
class JobResult:
    """The outcome of one job."""

    outcome: Outcome
    duration_ms: int | None = None  # None: its handler was not called
    cause: Cause | None = None  # why it was interrupted
    dropped: str | None = None  # why its result was not stored
    commit_now: bool = False  # before the next job starts
    unknown_type: str | None = None  # why no handler was found, if the job was snoozed for it


# Errors of Mayfly's own connection, in job.transaction(), job.read() and the like: not the handler's failure.
DATABASE_ERRORS = (
    errors.DatabaseAway, errors.DatabaseBusy, errors.DatabaseCrowded, errors.DatabaseFull, errors.DatabaseTooSlow,
)  # fmt: skip


class PayloadError(Dead):
    """A payload that does not match its handler's model; `enqueue` would have refused it."""


class JobObserver(Protocol):
    """Called before and after each run of a handler. Raises nothing except an interruption of the job."""

    def before(self, job: Job) -> None:
        """Called in the handler's thread or task, as part of its time."""

    def after(self, job: Job, outcome: Outcome) -> None:
        """Called in the main thread."""


@dataclass(frozen=True)
class JobObservers:
    """Tracing and hooks, the outermost first. Jobs of type ON_DEAD_TYPE are Mayfly's own and not observed."""

    observers: Sequence[JobObserver] = ()

    def before(self, job: Job) -> None:
        if job.type != ON_DEAD_TYPE:
            for each in self.observers:
                each.before(job)

    def after(self, job: Job, outcome: Outcome) -> None:
        if job.type != ON_DEAD_TYPE:
            for each in reversed(self.observers):
                each.after(job, outcome)


NO_OBSERVERS = JobObservers()


@dataclass
class RunnerHooks:
    """The hooks of the settings. A failing hook is logged once and counted; its job is not affected."""

    hooks_before: Sequence[Hook]
    hooks_after: Sequence[Hook]
    guard: Guard
    log: Log
    redact: Sequence[str] = ()
    failures: Counter[str] = field(default_factory=Counter)
    counting: Lock = field(default_factory=Lock)

    def before(self, job: Job) -> None:
        """An interruption here interrupts the job."""
        for hook in self.hooks_before:
            try:
                hook.function(job)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: its error is not the job's
                self._note_failure(hook, job, error)

    def after(self, job: Job, outcome: Outcome) -> None:
        """The job's own timeout is over; a hook that hangs is interrupted at the end of the window."""
        self.guard.end_timeout()
        for hook in self.hooks_after:
            try:
                try:
                    self.guard.armed = True
                    hook.function(job, outcome)
                finally:
                    self.guard.armed = False
            except (Exception, SystemExit, errors.Interrupted) as error:  # noqa: BLE001 - as above
                self._note_failure(hook, job, error)

    def close(self) -> None:
        """Log how often each hook failed; only its first failure was logged."""
        for name, times in self.failures.items():
            if times > 1:
                self.log.write(log_messages.hook_failures(name, times))

    def _note_failure(self, hook: Hook, job: Job, error: BaseException) -> None:
        with self.counting:  # `before` runs in the threads of handlers
            self.failures[hook.name] += 1
            if self.failures[hook.name] == 1:
                reason = first_line(self.redact, job.payload_text, Failure.from_error(error).message)
                self.log.write(log_messages.hook_failed(hook.name, job.id, job.type, reason))


def open_hooks(settings: Settings, guard: Guard, log: Log) -> RunnerHooks | None:
    """None without usable hooks. Hooks that cannot be used are logged."""
    found: dict[str, list[Hook]] = {BEFORE: [], AFTER: []}
    for variable, each in find_hooks(settings, *found):
        if isinstance(each, errors.HookUnusable):
            log.write(log_messages.hook_unusable(str(each)))
        else:
            found[variable].append(each)
    return RunnerHooks(found[BEFORE], found[AFTER], guard, log, settings.redact) if any(found.values()) else None


@dataclass(frozen=True)
class Invoker:
    """Runs jobs; has everything that does not change between jobs."""

    registry: Registry
    database: Database
    runtime: HandlerRuntime
    guard: Guard
    page: StatusPage
    default_backoff: Backoff
    unknown_type_grace: timedelta
    window_seconds: float
    random: Callable[[], float]
    on_dead: Callable[[Job], None] | None = None  # called before a job is written as dead; set if HOOKS_ON_DEAD is
    observers: JobObservers = NO_OBSERVERS

    def run(self, job: Job) -> JobResult:
        """The only place where foreign code runs: the handler, and the model of its payload."""
        handler = self.registry.handlers.get(job.type)
        if handler is None:
            return self._unknown(job)
        guard, result = self.guard, None
        job.runtime = self.runtime
        started = monotonic()
        self.page.start(job.id, started, handler.timeout)
        CURRENT_JOB.set(job)
        try:
            try:
                if handler.timeout is not None:
                    guard.start_timeout(handler.timeout)
                guard.armed = True  # from here on the guard's timer raises Interrupted
                self.observers.before(job)
                returned = handler.function(*arguments(handler, job))
            finally:  # at once: a later signal must not interrupt the runner itself
                guard.armed = False
                guard.restore_signals()
            result = encode_result(handler, returned)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is a failure of the job, not our exit
            result = self.after_error(handler, job, error, monotonic() - started, guard.cause_of())
        finally:
            ended = monotonic()
            CURRENT_JOB.set(None)
            if result is not None:  # while the job is on the status page: a hook may hang
                self.observers.after(job, result.outcome)
            self.page.finish(job.id, ended, result is not None and result.outcome.kind is OutcomeKind.DONE)
            guard.end_timeout()
        self.write_last_progress(job)
        result.duration_ms = round((ended - started) * 1000)
        result.commit_now = handler.ack == "each"
        return result

    def after_error(
        self, handler: Handler, job: Job, error: BaseException, seconds: float, cause: Cause | None
    ) -> JobResult:
        """Rolls back job.transaction(). `cause` is why the handler was interrupted, if it was."""
        self.runtime.job_transaction.rollback(error)
        match error:
            case errors.Interrupted() if cause in (Cause.STOP, Cause.STUCK):
                return self._result(job, policy.after_stop(job), cause)
            case errors.Interrupted() if cause is not None:
                interruption = Interruption(seconds, self.window_seconds, handler.timeout, interrupted_at(error))
                outcome = policy.after_interruption(job, interruption, self._retry_context(handler))
                return self._result(job, outcome, cause)
            case JobControl():
                return self.controlled(handler, job, error)
            case errors.PayloadUnreadable():
                return self.controlled(handler, job, PayloadError(str(error)))
            case errors.SliceEnded():
                return self._result(job, policy.after_slice(job))
            case errors.CancelRequested(reason=reason):
                return JobResult(policy.after_cancel(reason))
            case errors.HandlerEnded():  # the lease is lost: settling changes no row and logs that
                return JobResult(RELEASED)
        return self.failed(job, error)

    def failed(self, job: Job, error: BaseException) -> JobResult:
        self.runtime.job_transaction.rollback(error)
        retry = self._retry_context(self.registry.get(job.type))
        decide = policy.after_database_error if isinstance(error, DATABASE_ERRORS) else policy.after_failure
        return self._result(job, decide(job, Failure.from_error(error), retry))

    def controlled(self, handler: Handler, job: Job, control: JobControl) -> JobResult:
        """The handler raised Retry, Snooze, Cancel or Dead."""
        failure = Failure.from_reason(str(control) or type(control).__name__)
        return self._result(job, policy.after_control(job, control, failure, self._retry_context(handler)))

    def write_last_progress(self, job: Job) -> None:
        """Write progress that was throttled. Errors are ignored: settling the job has the same."""
        if job.progress_state is not None:
            with suppress(Exception, errors.HandlerEnded):
                job.progress_state.write(job)

    def _unknown(self, job: Job) -> JobResult:
        grace = None if self.registry.failures else self.unknown_type_grace
        unknown = UnknownType(self.registry.why_unknown(job.type), self.registry.did_you_mean(job.type), grace)
        result = self._result(job, policy.after_unknown_type(job, unknown, self._retry_context(None)))
        result.unknown_type = None if result.outcome.kind.is_final else unknown.text
        return result

    def _result(self, job: Job, outcome: Outcome, cause: Cause | None = None) -> JobResult:
        if outcome.kind is OutcomeKind.DEAD and self.on_dead is not None:
            self.on_dead(job)
        return JobResult(outcome, cause=cause)

    def _retry_context(self, handler: Handler | None) -> RetryContext:
        backoff = handler.backoff(self.default_backoff) if handler else self.default_backoff
        return RetryContext(self.database.clock.now(), backoff, self.random())


def interrupted_at(error: errors.Interrupted) -> str:
    """Where the handler was when it was first interrupted: its `finally` may have been interrupted again."""
    if error.stack:
        return error.stack
    while isinstance(error.__context__, errors.Interrupted):
        error = error.__context__
    frames = traceback.extract_tb(error.__traceback__)
    return stack_text(each for each in frames if Path(each.filename).parent != OWN_DIRECTORY)


def validated_payload(handler: Handler, job: Job) -> Any:
    try:
        payload = job.payload
        return handler.model.model_validate(payload) if handler.model else payload
    except ValueError as error:
        raise PayloadError(f"the payload does not match {handler.where}: {describe_payload_errors(error)}") from error


def arguments(handler: Handler, job: Job) -> tuple[Any, ...]:
    return (job, validated_payload(handler, job)) if handler.takes_payload else (job,)


def encode_result(handler: Handler, returned: object) -> JobResult:
    """A result that cannot be stored as JSON is dropped with a note: the job is done nevertheless."""
    if returned is None:
        return JobResult(DONE)
    try:
        text = json_text.encode(returned)
    except (TypeError, ValueError, RecursionError) as error:
        if hasattr(returned, "__await__"):  # a wrapper around an `async def`: nothing was executed
            reason = "returned an awaitable: declare the handler itself as `async def`"
            raise errors.BadHandler(handler.type, handler.where, reason) from None
        dropped = f"it is not valid JSON ({error})"
    else:
        size = len(text.encode())
        if size <= RESULT_LIMIT:
            return JobResult(policy.after_return(text))
        dropped = f"it has {size:,} bytes, the limit is {RESULT_LIMIT:,}"
    return JobResult(policy.after_return(None, note=f"result dropped: {dropped}"), dropped=dropped)
