"""Run one job: find its handler, fit its payload, call it under the guard, and say what became of it."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mayfly import admission, jsontext, verdict
from mayfly.backoff import Backoff
from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.errors import CancelRequested, HandlerEnded, Interrupted, NeverAwaited, SliceEnded
from mayfly.job import Job
from mayfly.jobs.enqueue import describe_misfit
from mayfly.jobs.pauses import Pause
from mayfly.jobs.running import RUNNING
from mayfly.outcome import DONE, RELEASED, RESULT_LIMIT, Dead, Kind, Outcome, Steer
from mayfly.page import Page
from mayfly.registry import Handler, Registry
from mayfly.verdict import Chances, Interruption
from mayfly.wording import Failure
from runner.guard import Cause, Guard
from runner.lifelines import MainLifeline


class Ran(NamedTuple):
    """What became of one job, and how long its handler took; None when it was never called."""

    outcome: Outcome
    duration_ms: int | None = None
    cause: Cause | None = None  # why it was interrupted
    dropped: str | None = None  # why its result was not kept
    at_once: bool = False  # to be committed before the next job starts
    unknown: bool = False  # no handler, and perhaps only because a module is broken


RETURNED = Ran(DONE)


class Misfit(Dead):
    """A payload that does not fit its handler's model; `enqueue` would have refused it."""


@dataclass(frozen=True)
class Invoker:
    """Everything that running a job needs and that does not change between jobs."""

    registry: Registry
    database: Database
    lifeline: MainLifeline
    guard: Guard
    page: Page
    usual_backoff: Backoff
    window_seconds: float
    dice: Callable[[], float]
    announce: Callable[[Job], None] | None = None  # a death, before it is written; set with HOOKS_ON_DEAD
    paused_types: Mapping[str, Pause] = field(default_factory=dict)  # kept up to date by whoever claims
    unconfigured: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by type, which settings are missing

    def run(self, job: Job) -> Ran:
        away = self.turned_away(job) if job.special is not None or self._may_turn_away else None
        if away is not None:
            return away
        handler = self.registry.get(job.type)
        return self._unknown(job) if handler is None else self._call(handler, job)

    def turned_away(self, job: Job) -> Ran | None:
        """What becomes of a job whose handler is not to be called; None for those that are to be run."""
        if job.special is None and not self._may_turn_away:
            return None
        pause, missing = self.paused_types.get(job.type), self.unconfigured.get(job.type, ())
        outcome = admission.turned_away(job, pause, self.database.clock.now(), missing)
        return None if outcome is None else Ran(outcome)

    @property
    def _may_turn_away(self) -> bool:
        return bool(self.paused_types or self.unconfigured)

    def _call(self, handler: Handler, job: Job) -> Ran:
        """The one place where foreign code runs: the handler's, and that of its payload's model."""
        job.lifeline = self.lifeline
        started = monotonic()
        self.page.start(job.id, started, handler.timeout)
        ran: Ran | None = None
        hooks = handler.hooks
        RUNNING.set(job)
        try:
            try:
                self.guard.watch(handler.timeout)
                if hooks is not None:
                    hooks.before(job)
                result = handler.function(*arguments(handler, job))
            finally:  # at once, whatever happened: an alarm that comes later must not hit ourselves
                self.guard.rest()
            ran = RETURNED if result is None else returned(handler, result)
        except Interrupted as interrupted:
            self._undo(interrupted)
            ran = self.interrupted(handler, job, monotonic() - started, self.guard.cause)
        except Steer as steer:
            self._undo(steer)
            ran = self.steered(handler, job, steer)
        except HandlerEnded as error:
            self._undo(error)
            ran = self.ended(job, error)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler is the job's failure, not our end
            ran = self.failed(job, error)
        finally:
            ended = monotonic()
            RUNNING.set(None)
            if hooks is not None and ran is not None:  # while the page names the job: who hangs there ran long
                hooks.after(job, ran.outcome)
            self.page.finish(job.id, ended, ran is not None and ran.outcome.kind is Kind.DONE)
            self.guard.relax()
        if job.trail is not None:
            self.write_last_progress(job)
        duration_ms, at_once = round((ended - started) * 1000), handler.ack == "each"
        if ran is RETURNED:  # to replace a tuple's fields costs more than to make one
            return Ran(DONE, duration_ms, at_once=at_once)
        return ran._replace(duration_ms=duration_ms, at_once=at_once)

    def failed(self, job: Job, error: BaseException) -> Ran:
        """The job's failure; nothing that its handler wrote in job.transaction() stays."""
        self._undo(error)
        chances = self._chances(self.registry.get(job.type))
        return self._ran(job, verdict.after_failure(job, Failure.from_error(error), chances))

    def interrupted(self, handler: Handler, job: Job, ran_seconds: float, cause: Cause) -> Ran:
        if cause in (Cause.STOP, Cause.STUCK):
            return self._ran(job, verdict.after_stop(job), cause)
        interruption = Interruption(ran_seconds, self.window_seconds, handler.timeout)
        return self._ran(job, verdict.after_interruption(job, interruption, self._chances(handler)), cause)

    def steered(self, handler: Handler, job: Job, steer: Steer) -> Ran:
        failure = Failure.from_reason(str(steer) or type(steer).__name__)
        return self._ran(job, verdict.after_steer(job, steer, failure, self._chances(handler)))

    def ended(self, job: Job, error: HandlerEnded) -> Ran:
        """What it asked for has ended it. Where the lease is gone, settling finds no row, and tells."""
        match error:
            case SliceEnded():
                return self._ran(job, verdict.after_slice(job))
            case CancelRequested(reason=reason):
                return Ran(verdict.after_cancel(reason))
        return Ran(RELEASED)

    def write_last_progress(self, job: Job) -> None:
        """What the throttle held back. Whatever is wrong with the job or the database, settling meets it too."""
        with suppress(Exception, HandlerEnded):
            if job.trail is not None:
                job.trail.write_progress(job)

    def _unknown(self, job: Job) -> Ran:
        """While a module is broken nobody knows whether the handler is in it: the job must not pay for that."""
        if self.registry.failures:
            return Ran(RELEASED, unknown=True)
        nearest = self.registry.nearest(job.type)
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        failure = Failure.from_reason(f"no handler for type {job.type!r}{hint}")
        return self._ran(job, verdict.after_failure(job, failure, self._chances(None)))

    def _ran(self, job: Job, outcome: Outcome, cause: Cause | None = None) -> Ran:
        if outcome.kind is Kind.DEAD and self.announce is not None:
            self.announce(job)
        return Ran(outcome, cause=cause)

    def _undo(self, error: BaseException) -> None:
        self.lifeline.undo(error)

    def _chances(self, handler: Handler | None) -> Chances:
        backoff = handler.backoff(self.usual_backoff) if handler else self.usual_backoff
        return Chances(self.database.clock.now(), backoff, self.dice())


def arguments(handler: Handler, job: Job) -> tuple[Any, ...]:
    if not handler.takes_payload:
        return (job,)
    try:
        payload = job.payload
        return job, handler.model.model_validate(payload) if handler.model else payload
    except ValueError as error:
        raise Misfit(f"the payload does not fit {handler.where}: {describe_misfit(error)}") from error


def returned(handler: Handler, result: object) -> Ran:
    """The result as JSON. One that cannot be kept is dropped with a note: the work has been done all the same."""
    try:
        text = jsontext.encode(result)
    except (TypeError, ValueError, RecursionError) as error:
        if hasattr(result, "__await__"):  # a wrapper around an `async def`: the work has not even begun
            raise NeverAwaited(handler.where) from None
        return _without_result(f"it is no JSON ({error})")
    if len(text.encode()) > RESULT_LIMIT:
        return _without_result(f"it has {len(text.encode()):,} bytes, {RESULT_LIMIT:,} are kept")
    return Ran(verdict.after_return(text))


def _without_result(reason: str) -> Ran:
    return Ran(verdict.after_return(None, note=f"result dropped: {reason}"), dropped=reason)
