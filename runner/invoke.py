"""Run one job: find its handler, fit its payload, call it under the guard, and say what became of it."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mayfly import json_text
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import BadHandler, CancelRequested, HandlerEnded, Interrupted, SliceEnded
from mayfly.job import CURRENT_JOB, Job
from mayfly.process.status_page import StatusPage
from mayfly.queue import policy
from mayfly.queue.failure import Failure
from mayfly.queue.insert import describe_payload_errors
from mayfly.queue.outcome import DONE, RELEASED, RESULT_LIMIT, Dead, JobControl, Outcome, OutcomeKind
from mayfly.queue.pauses import Pause
from mayfly.queue.policy import Backoff, Interruption, RetryContext
from mayfly.registry import Handler, Registry
from runner.guard import Cause, Guard
from runner.job_runtime import MainThreadRuntime


class JobResult(NamedTuple):
    """What became of one job, and how long its handler took; None when it was never called."""

    outcome: Outcome
    duration_ms: int | None = None
    cause: Cause | None = None  # why it was interrupted
    dropped: str | None = None  # why its result was not kept
    at_once: bool = False  # to be committed before the next job starts
    unknown: bool = False  # no handler, and perhaps only because a module is broken


RETURNED = JobResult(DONE)


class PayloadError(Dead):
    """A payload that does not fit its handler's model; `enqueue` would have refused it."""


@dataclass(frozen=True)
class Invoker:
    """Everything that running a job needs and that does not change between jobs."""

    registry: Registry
    database: Database
    lifeline: MainThreadRuntime
    guard: Guard
    page: StatusPage
    usual_backoff: Backoff
    window_seconds: float
    dice: Callable[[], float]
    announce: Callable[[Job], None] | None = None  # a death, before it is written; set with HOOKS_ON_DEAD
    paused_types: Mapping[str, Pause] = field(default_factory=dict)  # kept up to date by whoever claims
    unconfigured: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by type, which settings are missing

    def run(self, job: Job) -> JobResult:
        away = self.turned_away(job) if job.special is not None or self._may_turn_away else None
        if away is not None:
            return away
        handler = self.registry.get(job.type)
        return self._unknown(job) if handler is None else self._call(handler, job)

    def turned_away(self, job: Job) -> JobResult | None:
        """What becomes of a job whose handler is not to be called; None for those that are to be run."""
        if job.special is None and not self._may_turn_away:
            return None
        pause, missing = self.paused_types.get(job.type), self.unconfigured.get(job.type, ())
        outcome = policy.skip_outcome(job, pause, self.database.clock.now(), missing)
        return None if outcome is None else JobResult(outcome)

    @property
    def _may_turn_away(self) -> bool:
        return bool(self.paused_types or self.unconfigured)

    def _call(self, handler: Handler, job: Job) -> JobResult:
        """The one place where foreign code runs: the handler's, and that of its payload's model."""
        job.lifeline = self.lifeline
        started = monotonic()
        self.page.start(job.id, started, handler.timeout)
        ran: JobResult | None = None
        hooks = handler.hooks
        CURRENT_JOB.set(job)
        try:
            try:
                self.guard.watch(handler.timeout)
                if hooks is not None:
                    hooks.before(job)
                result = handler.function(*arguments(handler, job))
            finally:  # at once, whatever happened: an alarm that comes later must not hit ourselves
                self.guard.rest()
            ran = RETURNED if result is None else encode_result(handler, result)
        except Interrupted as interrupted:
            self._undo(interrupted)
            ran = self.interrupted(handler, job, monotonic() - started, self.guard.cause)
        except JobControl as steer:
            self._undo(steer)
            ran = self.steered(handler, job, steer)
        except HandlerEnded as error:
            self._undo(error)
            ran = self.ended(job, error)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not our end
            ran = self.failed(job, error)
        finally:
            ended = monotonic()
            CURRENT_JOB.set(None)
            if hooks is not None and ran is not None:  # while the page names the job: who hangs there ran long
                hooks.after(job, ran.outcome)
            self.page.finish(job.id, ended, ran is not None and ran.outcome.kind is OutcomeKind.DONE)
            self.guard.relax()
        if job.trail is not None:
            self.write_last_progress(job)
        duration_ms, at_once = round((ended - started) * 1000), handler.ack == "each"
        if ran is RETURNED:  # to replace a tuple's fields costs more than to make one
            return JobResult(DONE, duration_ms, at_once=at_once)
        return ran._replace(duration_ms=duration_ms, at_once=at_once)

    def failed(self, job: Job, error: BaseException) -> JobResult:
        """The job's failure; nothing that its handler wrote in job.transaction() stays."""
        self._undo(error)
        chances = self._chances(self.registry.get(job.type))
        return self._ran(job, policy.after_failure(job, Failure.from_error(error), chances))

    def interrupted(self, handler: Handler, job: Job, ran_seconds: float, cause: Cause) -> JobResult:
        if cause in (Cause.STOP, Cause.STUCK):
            return self._ran(job, policy.after_stop(job), cause)
        interruption = Interruption(ran_seconds, self.window_seconds, handler.timeout)
        return self._ran(job, policy.after_interruption(job, interruption, self._chances(handler)), cause)

    def steered(self, handler: Handler, job: Job, steer: JobControl) -> JobResult:
        failure = Failure.from_reason(str(steer) or type(steer).__name__)
        return self._ran(job, policy.after_control(job, steer, failure, self._chances(handler)))

    def ended(self, job: Job, error: HandlerEnded) -> JobResult:
        """What it asked for has ended it. Where the lease is gone, settling finds no row, and tells."""
        match error:
            case SliceEnded():
                return self._ran(job, policy.after_slice(job))
            case CancelRequested(reason=reason):
                return JobResult(policy.after_cancel(reason))
        return JobResult(RELEASED)

    def write_last_progress(self, job: Job) -> None:
        """What the throttle held back. Whatever is wrong with the job or the database, settling meets it too."""
        with suppress(Exception, HandlerEnded):
            if job.trail is not None:
                job.trail.write_progress(job)

    def _unknown(self, job: Job) -> JobResult:
        """While a module is broken nobody knows whether the handler is in it: the job must not pay for that."""
        if self.registry.failures:
            return JobResult(RELEASED, unknown=True)
        hint = self.registry.did_you_mean(job.type)
        failure = Failure.from_reason(f"no handler for type {job.type!r}{hint and f'.{hint}'}")
        return self._ran(job, policy.after_failure(job, failure, self._chances(None)))

    def _ran(self, job: Job, outcome: Outcome, cause: Cause | None = None) -> JobResult:
        if outcome.kind is OutcomeKind.DEAD and self.announce is not None:
            self.announce(job)
        return JobResult(outcome, cause=cause)

    def _undo(self, error: BaseException) -> None:
        self.lifeline.undo(error)

    def _chances(self, handler: Handler | None) -> RetryContext:
        backoff = handler.backoff(self.usual_backoff) if handler else self.usual_backoff
        return RetryContext(self.database.clock.now(), backoff, self.dice())


def arguments(handler: Handler, job: Job) -> tuple[Any, ...]:
    if not handler.takes_payload:
        return (job,)
    try:
        payload = job.payload
        return job, handler.model.model_validate(payload) if handler.model else payload
    except ValueError as error:
        raise PayloadError(f"the payload does not fit {handler.where}: {describe_payload_errors(error)}") from error


def encode_result(handler: Handler, result: object) -> JobResult:
    """The result as JSON. One that cannot be kept is dropped with a note: the work has been done all the same."""
    try:
        text = json_text.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        if hasattr(result, "__await__"):  # a wrapper around an `async def`: the work has not even begun
            reason = "returned an awaitable: declare the handler itself as `async def`"
            raise BadHandler(handler.type, handler.where, reason) from None
        return _without_result(f"it is no JSON ({error})")
    if len(text.encode()) > RESULT_LIMIT:
        return _without_result(f"it has {len(text.encode()):,} bytes, {RESULT_LIMIT:,} are kept")
    return JobResult(policy.after_return(text))


def _without_result(reason: str) -> JobResult:
    return JobResult(policy.after_return(None, note=f"result dropped: {reason}"), dropped=reason)
