"""Decide the outcome of a job: after a return, a failure, a timeout, a crash; whether to skip it; how long to wait
before a retry. Pure: time and randomness are arguments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mayfly.format import format_duration
from mayfly.job import FULL_WINDOW, SLICES_ALLOWED, Job, RareFields
from mayfly.queue.outcome import (
    DONE,
    RELEASED,
    Cancel,
    Dead,
    Failure,
    JobControl,
    Outcome,
    OutcomeKind,
    Retry,
    Snooze,
)
from mayfly.schema.tables import WAITING_LENGTH

if TYPE_CHECKING:
    from mayfly.queue.pauses import Pause

MAX_JITTER = 0.1  # of the delay: jobs that failed together are not retried together
CRASHES_ALLOWED = 3  # at the same checkpoint
MAX_FORGIVEN_CRASHES = 20  # in a row without the end of a slice, even if the checkpoint changed between them
INTERRUPTIONS_ALLOWED = 3
MIN_LATE_SECONDS = 0.1  # between the timeout of a job and its end: less is not worth a remark
RELEASES_ALLOWED = 10  # in a row
LEASE_EXPIRED = "its lease expired before the external worker reported a result"
MAX_UNKNOWN_DELAY = timedelta(minutes=5)  # between two claims of a job whose type has no handler


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
        case Snooze(until=until, after=after, reason=reason):
            run_at = until or retry.now + timedelta(seconds=after or 0)
            waiting_for = None if reason is None else failure.message[:WAITING_LENGTH]
            return Outcome(OutcomeKind.SNOOZED, run_at=run_at, keeps_attempt=True, waiting_for=waiting_for)
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
    stack: str = ""  # where its handler was

    @property
    def had_own_time(self) -> bool:
        return self.timeout_seconds is not None and self.ran_seconds >= self.timeout_seconds

    @property
    def had_window(self) -> bool:
        return self.ran_seconds >= FULL_WINDOW * self.window_seconds


def after_interruption(job: Job, interruption: Interruption, retry: RetryContext) -> Outcome:
    """A job that had its full time has timed out. One that started late in the window is released, up to three times.

    A job that has changed its checkpoint continues from there.
    """
    if job.has_moved:
        return after_slice(job)
    if interruption.had_own_time or interruption.had_window or job.interruptions >= INTERRUPTIONS_ALLOWED:
        return after_failure(job, _timeout(job, interruption), retry, ending=OutcomeKind.TIMED_OUT)
    return Outcome(OutcomeKind.RELEASED, keeps_attempt=True, interrupted=True)


def _timeout(job: Job, interruption: Interruption) -> Failure:
    """States the limit, and the duration if that is another number: a handler may take a while to end."""
    ran, window = f"{interruption.ran_seconds:.1f} s", f"{round(interruption.window_seconds, 1):g} s"
    if interruption.had_own_time:
        limit = f"timed out after {interruption.timeout_seconds:g} s"
        is_late = interruption.ran_seconds - (interruption.timeout_seconds or 0) >= MIN_LATE_SECONDS
        message = f"{limit}; ended after {ran}" if is_late else limit
    elif interruption.had_window:
        limit = message = f"timed out after {ran}, at the end of the runner's window of {window}"
    else:
        limit = message = f"timed out after {ran}: interrupted by the end of a window {job.interruptions + 1} times"
    text = f"{message}\n{interruption.stack}" if interruption.stack else message
    # Neither how long it took to end nor where it was makes another error.
    return replace(Failure.from_reason(text), fingerprint=Failure.from_reason(limit).fingerprint)


def after_slice(job: Job) -> Outcome:
    """It ended at a checkpoint: the next cycle continues, no attempt is used. Dead after 20 without progress."""
    stalled = (job.rare_fields or RareFields()).stalled + 1
    if stalled >= SLICES_ALLOWED:
        return _dead(Failure.from_reason(f"{stalled} slices without a changed checkpoint"), OutcomeKind.TIMED_OUT)
    return Outcome(OutcomeKind.SLICED, keeps_attempt=True)


def after_cancel(reason: str) -> Outcome:
    return Outcome(OutcomeKind.CANCELLED, error=reason)


def after_stop(job: Job) -> Outcome:
    """Its runner was asked to stop and could not wait for it any longer."""
    return after_slice(job) if job.has_moved else RELEASED


def after_crash(job: Job, reason: str, retry: RetryContext) -> Outcome:
    """A crash is not a failure and uses no attempt, but after the third the job is dead.

    Also after the twentieth, if earlier ones were forgiven because its checkpoint changed.
    """
    crashes = job.crashes + 1
    in_all = crashes + (job.rare_fields or RareFields()).forgiven
    is_last = crashes >= CRASHES_ALLOWED or in_all >= MAX_FORGIVEN_CRASHES
    failure = Failure.from_reason(f"crashed {in_all} times, last: {reason}" if is_last else f"crashed: {reason}")
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
    """Mayfly's own connection failed. Uses no attempt up to ten times in a row, then counts as a failure."""
    releases = (job.rare_fields or RareFields()).releases + 1
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
    """Its runner died with its dispatcher or host. The job is probably not the cause, unless this happens repeatedly.

    It is run alone next time: if it is the cause, that is certain then.
    """
    releases = (job.rare_fields or RareFields()).releases + 1
    if releases > RELEASES_ALLOWED:
        failure = Failure.from_reason(f"released {RELEASES_ALLOWED} times in a row, last: {reason}")
        return _dead(failure, OutcomeKind.CRASHED)
    return Outcome(
        OutcomeKind.RELEASED,
        run_at=None if releases == 1 else retry.after(releases),
        error=Failure.from_reason(reason).text,
        keeps_attempt=True,
        suspect=True,
        counts_release=True,
    )


@dataclass(frozen=True)
class UnknownType:
    """Why no handler was found for a job, and how long it may wait for one."""

    reason: str
    hint: str = ""  # a sentence about the reason, with a leading space
    grace: timedelta | None = None  # None: without an end, because a module that cannot be imported may have it

    @property
    def text(self) -> str:
        return f"{self.reason}{self.hint and f'.{self.hint}'}"

    @property
    def failure(self) -> Failure:
        waited = f" for {format_duration(self.grace)} (UNKNOWN_TYPE_GRACE)" if self.grace else ""
        return Failure.from_reason(replace(self, reason=f"{self.reason}{waited}").text)


def after_unknown_type(job: Job, unknown: UnknownType, retry: RetryContext) -> Outcome:
    """Uses no attempt: a deploy may bring the handler. Dead when the grace period is over."""
    since = (job.rare_fields or RareFields()).unknown_since or retry.now
    if unknown.grace is None:
        since = max(since, retry.now - MAX_UNKNOWN_DELAY)  # the grace period begins when all modules can be imported
    elif retry.now >= since + unknown.grace:
        return replace(_dead(unknown.failure, OutcomeKind.FAILED), keeps_attempt=True)
    return Outcome(
        OutcomeKind.SNOOZED,
        run_at=_next_search(since, unknown.grace, retry),
        keeps_attempt=True,
        waiting_for=unknown.reason[:WAITING_LENGTH],
        unknown_since=since,
    )


def _next_search(since: datetime, grace: timedelta | None, retry: RetryContext) -> datetime:
    """The job waits as long again as it has waited so far, but not past the end of the grace period."""
    shortest = timedelta(seconds=retry.backoff.delay(1))
    delay = max(shortest, min(retry.now - since, MAX_UNKNOWN_DELAY))
    at = retry.now + delay * (1 + MAX_JITTER * retry.jitter)
    return at if grace is None else min(at, since + grace)


def after_crash_among(suspects: int, job: Job, reason: str, retry: RetryContext) -> Outcome:
    """If several jobs may have been running, each is run again alone, and no crash is counted."""
    if suspects == 1:
        return after_crash(job, reason, retry)
    error = Failure.from_reason(reason).text
    return Outcome(OutcomeKind.RELEASED, error=error, keeps_attempt=True, suspect=True)


def after_expired_lease(held: int, job: Job, now: datetime) -> Outcome:
    """Its external worker, which held this many jobs, reported nothing. Due at once: the lease was the delay."""
    return replace(after_crash_among(held, job, LEASE_EXPIRED, RetryContext(now, Backoff())), run_at=None)


def _dead(failure: Failure, ending: OutcomeKind) -> Outcome:
    return Outcome(OutcomeKind.DEAD, error=failure.text, fingerprint=failure.fingerprint, attempt_ending=ending)


def skip_outcome(job: Job, pause: "Pause | None", now: datetime, missing: Sequence[str] = ()) -> Outcome | None:
    """None if the job should run. Checked in this order: cancellation, a changed row of its source, expiry, a pause,
    missing settings.

    `missing` are settings that its handler requires. Checked last: a type may be paused until they are set.
    """
    rare, reason = job.rare_fields or RareFields(), None
    if rare.cancel_reason is not None:
        reason = rare.cancel_reason
    elif job.source_row is not None and job.source_row.is_changed:
        reason = "row changed: the application has changed or deleted the row while the job waited"
    elif job.source_row is not None and job.source_row.values is None:
        waiting_for = f"source {job.source_row.source}, which this host does not have or cannot use"
        return Outcome(
            OutcomeKind.SNOOZED, run_at=now + MAX_UNKNOWN_DELAY, keeps_attempt=True, waiting_for=waiting_for
        )
    elif rare.expires_at is not None and rare.expires_at <= now:
        reason = f"expired: not started by {rare.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    elif pause is not None and pause.holds(now):
        until = pause.postponed_until(now)
        return Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True, waiting_for=pause.waiting_for)
    elif missing:
        reason = f"integration not configured: {', '.join(missing)}"
    return None if reason is None else Outcome(OutcomeKind.CANCELLED, error=reason, keeps_attempt=True)
