"""Decide what becomes of a job: after a return, a failure, a timeout, a crash; whether to skip it; how long to wait
before a retry. Pure: clock and chance are arguments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mayfly.job import FULL_WINDOW, SLICES_ALLOWED, Job
from mayfly.queue.failure import Failure
from mayfly.queue.outcome import DONE, RELEASED, Cancel, Dead, JobControl, Outcome, OutcomeKind, Retry, Snooze

if TYPE_CHECKING:
    from mayfly.queue.pauses import Pause

MAX_JITTER = 0.1  # of the delay: jobs that failed together are not retried together
CRASHES_ALLOWED = 3  # at the same checkpoint
MAX_FORGIVEN_CRASHES = 20  # in a row without the end of a slice, whatever the checkpoints between them
INTERRUPTIONS_ALLOWED = 3
RELEASES_ALLOWED = 10  # in a row


@dataclass(frozen=True)
class Backoff:
    base_seconds: float = 1.0
    cap_seconds: float = 3600.0

    def delay(self, attempt: int, jitter: float = 0.0) -> float:
        """Seconds after the given attempt: min(2^attempt × base, cap), up to a tenth longer with jitter 1."""
        doubled = self.base_seconds * 2.0 ** min(attempt, 62)  # beyond that a float overflows
        return min(doubled, self.cap_seconds) * (1 + MAX_JITTER * jitter)


@dataclass(frozen=True)
class RetryContext:
    """When a failed job is retried: the current time, its handler's backoff, and a random number from 0 to 1."""

    now: datetime
    backoff: Backoff
    jitter: float = 0.0

    def after(self, attempt: int) -> datetime:
        return self.now + timedelta(seconds=self.backoff.delay(attempt, self.jitter))


def after_return(result: str | None, note: str | None = None) -> Outcome:
    return DONE if result is None and note is None else Outcome(OutcomeKind.DONE, result=result, error=note)


def after_control(job: Job, control: JobControl, failure: Failure, retry: RetryContext) -> Outcome:
    match control:
        case Cancel():
            return after_cancel(failure.message)
        case Dead():
            return _dead(failure, OutcomeKind.FAILED)
        case Snooze(until=None, after=after):
            return Outcome(OutcomeKind.SNOOZED, run_at=retry.now + timedelta(seconds=after or 0), keeps_attempt=True)
        case Snooze(until=until, waiting_for=reason):
            return Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True, waiting_for=reason)
        case Retry(after=float(after)):
            return after_failure(job, failure, retry, run_at=retry.now + timedelta(seconds=after))
    return after_failure(job, failure, retry)


def after_failure(
    job: Job,
    failure: Failure,
    retry: RetryContext,
    ending: OutcomeKind = OutcomeKind.FAILED,
    run_at: datetime | None = None,
) -> Outcome:
    """A retry after the backoff, or dead after the last attempt."""
    if job.attempt >= job.max_attempts:
        return _dead(failure, ending)
    return Outcome(
        ending,
        run_at=run_at or retry.after(job.attempt),
        error=failure.text,
        fingerprint=failure.fingerprint,
        attempt_ending=ending,
    )


@dataclass(frozen=True)
class Interruption:
    """How long a job had run when its time was up, and how long it was allowed to."""

    ran_seconds: float
    window_seconds: float
    timeout_seconds: float | None = None  # the job's own


def after_interruption(job: Job, interruption: Interruption, retry: RetryContext) -> Outcome:
    """A job that had its whole time has failed; one that started late in the window gets another one, three times.

    One that has changed its checkpoint continues from there.
    """
    if job.has_moved:
        return after_slice(job)
    own, ran = interruption.timeout_seconds, interruption.ran_seconds
    had_own_time = own is not None and ran >= own
    had_window = ran >= FULL_WINDOW * interruption.window_seconds
    if had_own_time or had_window or job.interruptions >= INTERRUPTIONS_ALLOWED:
        failure = Failure.from_reason(f"timed out after {ran:.1f} s")
        return after_failure(job, failure, retry, ending=OutcomeKind.TIMED_OUT)
    return Outcome(OutcomeKind.RELEASED, keeps_attempt=True, interrupted=True)


def after_slice(job: Job) -> Outcome:
    """Ended at a checkpoint: the next cycle continues, no attempt is spent. After 20 without progress it is dead."""
    stalled = (job.special.stalled if job.special is not None else 0) + 1
    if stalled >= SLICES_ALLOWED:
        return _dead(Failure.from_reason(f"{stalled} slices without a changed checkpoint"), OutcomeKind.TIMED_OUT)
    return Outcome(OutcomeKind.SLICED, keeps_attempt=True)


def after_cancel(reason: str) -> Outcome:
    return Outcome(OutcomeKind.CANCELLED, error=reason)


def after_stop(job: Job) -> Outcome:
    """Its runner was asked to stop, and could not wait for it any longer."""
    return after_slice(job) if job.has_moved else RELEASED


def after_crash(job: Job, reason: str, retry: RetryContext) -> Outcome:
    """A crash is not a failure: no attempt is spent, but the third one is the last.

    So is the twentieth of a job whose crashes were forgiven because its checkpoint changed.
    """
    crashes = job.crashes + 1
    in_all = crashes + (job.special.forgiven if job.special is not None else 0)
    is_last = crashes >= CRASHES_ALLOWED or in_all >= MAX_FORGIVEN_CRASHES
    failure = Failure.from_reason(f"crashed {in_all} times, at last: {reason}" if is_last else f"crashed: {reason}")
    return Outcome(
        OutcomeKind.DEAD if is_last else OutcomeKind.CRASHED,
        run_at=None if is_last else retry.after(crashes),
        error=failure.text,
        fingerprint=failure.fingerprint,
        keeps_attempt=True,
        crashed=True,
        suspect=True,
        attempt_ending=OutcomeKind.CRASHED,
    )


def after_database_error(job: Job, failure: Failure, retry: RetryContext) -> Outcome:
    """Mayfly's own connection failed: no attempt is spent, ten times in a row; then it counts as a failure."""
    releases = _releases(job) + 1
    if releases > RELEASES_ALLOWED:
        return after_failure(job, failure, retry)
    return Outcome(
        OutcomeKind.RELEASED,
        run_at=retry.after(releases),
        error=failure.text,
        fingerprint=failure.fingerprint,
        keeps_attempt=True,
        counts_release=True,
    )


def after_lost_runner(job: Job, reason: str, retry: RetryContext) -> Outcome:
    """Its runner died with its dispatcher or host, which the job did not cause, unless it happens again and again.

    It is run alone next time, so that it is known which job was running if it did cause it.
    """
    releases = _releases(job) + 1
    if releases > RELEASES_ALLOWED:
        failure = Failure.from_reason(f"released {RELEASES_ALLOWED} times in a row, at last: {reason}")
        return _dead(failure, OutcomeKind.CRASHED)
    run_at = None if releases == 1 else retry.after(releases)
    return Outcome(OutcomeKind.RELEASED, run_at=run_at, keeps_attempt=True, suspect=True, counts_release=True)


def _releases(job: Job) -> int:
    return job.special.releases if job.special is not None else 0


def after_crash_among(suspects: int, job: Job, reason: str, retry: RetryContext) -> Outcome:
    """If several jobs may have been running, any can be the cause: each is run again alone, without a crash."""
    if suspects == 1:
        return after_crash(job, reason, retry)
    return Outcome(OutcomeKind.RELEASED, keeps_attempt=True, suspect=True)


def _dead(failure: Failure, ending: OutcomeKind) -> Outcome:
    return Outcome(OutcomeKind.DEAD, error=failure.text, fingerprint=failure.fingerprint, attempt_ending=ending)


def skip_outcome(job: Job, pause: "Pause | None", now: datetime, missing: Sequence[str] = ()) -> Outcome | None:
    """None if it is to be run. Cancellation comes first, then expiry, then a pause.

    `missing` are settings that its handler requires. They come last: a type may be paused until they are set.
    """
    special = job.special
    if special is not None and special.cancel_reason is not None:
        return Outcome(OutcomeKind.CANCELLED, error=special.cancel_reason, keeps_attempt=True)
    if special is not None and special.expires_at is not None and special.expires_at <= now:
        reason = f"expired: not started by {special.expires_at:%Y-%m-%d %H:%M:%S} UTC"
        return Outcome(OutcomeKind.CANCELLED, error=reason, keeps_attempt=True)
    if pause is not None and pause.holds(now):
        until = pause.postponed_until(now)
        return Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True, waiting_for=pause.waiting_for)
    if missing:
        reason = f"integration not configured: {', '.join(missing)}"
        return Outcome(OutcomeKind.CANCELLED, error=reason, keeps_attempt=True)
    return None
