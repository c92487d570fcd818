"""How long a failed job waits before it is tried again. Pure: chance is an argument."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mayfly.job import FULL_WINDOW, SLICES_ALLOWED, Job
from mayfly.queue.failure import Failure
from mayfly.queue.outcome import DONE, RELEASED, Cancel, Dead, JobControl, Outcome, OutcomeKind, Retry, Snooze

if TYPE_CHECKING:
    from mayfly.queue.pauses import Pause


SPREAD = 0.1  # jobs that failed together, come back a little apart


@dataclass(frozen=True)
class Backoff:
    base_seconds: float = 1.0
    cap_seconds: float = 3600.0

    def delay(self, attempt: int, jitter: float = 0.0) -> float:
        """Seconds after the given attempt: min(2^attempt × base, cap), longer by up to a tenth with jitter 1."""
        doubled = self.base_seconds * 2.0 ** min(attempt, 62)  # beyond that floats only get silly
        return min(doubled, self.cap_seconds) * (1 + SPREAD * jitter)


CRASHES_ALLOWED = 3  # at the same checkpoint
MAX_FORGIVEN_CRASHES = 20  # in a row without the end of a slice, however far it got between them
INTERRUPTIONS_ALLOWED = 3


@dataclass(frozen=True)
class RetryContext:
    """How a failed job comes back: the clock, its handler's backoff, and the dice."""

    now: datetime
    backoff: Backoff
    jitter: float = 0.0

    def after(self, attempt: int) -> datetime:
        return self.now + timedelta(seconds=self.backoff.delay(attempt, self.jitter))


def after_return(result: str | None, note: str | None = None) -> Outcome:
    return DONE if result is None and note is None else Outcome(OutcomeKind.DONE, result=result, error=note)


def after_control(job: Job, steer: JobControl, failure: Failure, chances: RetryContext) -> Outcome:
    match steer:
        case Cancel():
            return after_cancel(failure.message)
        case Dead():
            return _dead(failure, OutcomeKind.FAILED)
        case Snooze(until=None, after=after):
            return Outcome(
                OutcomeKind.SNOOZED, run_at=chances.now + timedelta(seconds=after or 0), keeps_attempt=True
            )
        case Snooze(until=until, waiting_for=reason):
            return Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True, waiting_for=reason)
        case Retry(after=float(after)):
            return after_failure(job, failure, chances, run_at=chances.now + timedelta(seconds=after))
    return after_failure(job, failure, chances)


def after_failure(
    job: Job,
    failure: Failure,
    chances: RetryContext,
    ending: OutcomeKind = OutcomeKind.FAILED,
    run_at: datetime | None = None,
) -> Outcome:
    """Another try after the backoff, or the end after the last attempt."""
    if job.attempt >= job.max_attempts:
        return _dead(failure, ending)
    return Outcome(
        ending,
        run_at=run_at or chances.after(job.attempt),
        error=failure.text,
        fingerprint=failure.fingerprint,
        attempt_ending=ending,
    )


@dataclass(frozen=True)
class Interruption:
    """How long a job had run when its time was up, and how long it might have."""

    ran_seconds: float
    window_seconds: float
    timeout_seconds: float | None = None  # the job's own


def after_interruption(job: Job, interruption: Interruption, chances: RetryContext) -> Outcome:
    """A job that had its time has failed; one that merely came late gets another window, three times.

    One that has changed its checkpoint meanwhile was well on its way.
    """
    if job.has_moved:
        return after_slice(job)
    own, ran = interruption.timeout_seconds, interruption.ran_seconds
    had_own_time = own is not None and ran >= own
    had_window = ran >= FULL_WINDOW * interruption.window_seconds
    if had_own_time or had_window or job.interruptions >= INTERRUPTIONS_ALLOWED:
        failure = Failure.from_reason(f"timed out after {ran:.1f} s")
        return after_failure(job, failure, chances, ending=OutcomeKind.TIMED_OUT)
    return Outcome(OutcomeKind.RELEASED, keeps_attempt=True, interrupted=True)


def after_slice(job: Job) -> Outcome:
    """Ended at a checkpoint: the next cycle goes on, no attempt is spent. Who stands still for too long is dead."""
    stalled = (job.special.stalled if job.special is not None else 0) + 1
    if stalled >= SLICES_ALLOWED:
        return _dead(Failure.from_reason(f"{stalled} slices without a changed checkpoint"), OutcomeKind.TIMED_OUT)
    return Outcome(OutcomeKind.SLICED, keeps_attempt=True)


def after_cancel(reason: str) -> Outcome:
    return Outcome(OutcomeKind.CANCELLED, error=reason)


def after_stop(job: Job) -> Outcome:
    """Its runner was asked to end, and could not wait for it any longer."""
    return after_slice(job) if job.has_moved else RELEASED


def after_crash(job: Job, reason: str, chances: RetryContext) -> Outcome:
    """A crash is not a failure: no attempt is spent, but the third one is the last.

    So is the twentieth of a job whose changed checkpoints have forgiven it the others.
    """
    crashes = job.crashes + 1
    in_all = crashes + (job.special.forgiven if job.special is not None else 0)
    is_last = crashes >= CRASHES_ALLOWED or in_all >= MAX_FORGIVEN_CRASHES
    failure = Failure.from_reason(f"crashed {in_all} times, at last: {reason}" if is_last else f"crashed: {reason}")
    return Outcome(
        OutcomeKind.DEAD if is_last else OutcomeKind.CRASHED,
        run_at=None if is_last else chances.after(crashes),
        error=failure.text,
        fingerprint=failure.fingerprint,
        keeps_attempt=True,
        crashed=True,
        suspect=True,
        attempt_ending=OutcomeKind.CRASHED,
    )


def after_crash_among(suspects: int, job: Job, reason: str, chances: RetryContext) -> Outcome:
    """Of several that may have been running any can be the culprit: each is run again alone, accused of nothing."""
    if suspects == 1:
        return after_crash(job, reason, chances)
    return Outcome(OutcomeKind.RELEASED, keeps_attempt=True, suspect=True)


def _dead(failure: Failure, ending: OutcomeKind) -> Outcome:
    return Outcome(OutcomeKind.DEAD, error=failure.text, fingerprint=failure.fingerprint, attempt_ending=ending)


def skip_outcome(job: Job, pause: "Pause | None", now: datetime, missing: Sequence[str] = ()) -> Outcome | None:
    """None if it is to be run. Somebody's wish that it end comes first, then its term, then what only puts it off.

    `missing` are settings that its handler requires. They come last: who has paused a type may be about to set them.
    """
    special = job.special
    if special is not None and special.cancel_reason is not None:
        return Outcome(OutcomeKind.CANCELLED, error=special.cancel_reason, keeps_attempt=True)
    if special is not None and special.expires_at is not None and special.expires_at <= now:
        reason = f"expired: not started by {special.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        return Outcome(OutcomeKind.CANCELLED, error=reason, keeps_attempt=True)
    if pause is not None and pause.holds(now):
        until = pause.put_off_until(now)
        return Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True, waiting_for=pause.waiting_for)
    if missing:
        reason = f"integration not configured: {', '.join(missing)}"
        return Outcome(OutcomeKind.CANCELLED, error=reason, keeps_attempt=True)
    return None
