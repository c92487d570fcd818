"""The outcome of a job for every way in which its run can end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.job import MOVED, RareFields
from mayfly.queue import policy
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
from mayfly.queue.policy import Backoff, Interruption, RetryContext, UnknownType
from tests.factories import NOON, make_job

BOOM = Failure("ValueError: boom", "ValueError: boom\n  File …", "f1ngerpr1nt")
CONTEXT = RetryContext(NOON, Backoff())
WINDOW = 50.0


def after_seconds(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def failed(ending: OutcomeKind = OutcomeKind.FAILED, **changes: Any) -> Outcome:
    """The expected outcome of a failure with attempts left."""
    fields = {"run_at": after_seconds(2), "error": BOOM.text, "fingerprint": BOOM.fingerprint}
    return Outcome(ending, **{**fields, "attempt_ending": ending, **changes})


def dead(ending: OutcomeKind = OutcomeKind.FAILED) -> Outcome:
    return Outcome(OutcomeKind.DEAD, error=BOOM.text, fingerprint=BOOM.fingerprint, attempt_ending=ending)


# --- a handler that returns -------------------------------------------------------------------------------


def test_a_plain_return_is_done() -> None:
    """Every job without a result has the same value, so they can share a statement."""
    assert policy.after_return(None) is DONE


def test_a_result_is_stored() -> None:
    """It is written together with `done`."""
    assert policy.after_return('{"sent":3}') == Outcome(OutcomeKind.DONE, result='{"sent":3}')


def test_a_job_whose_result_cannot_be_stored_is_done() -> None:
    """The reason is stored as the job's error text."""
    assert policy.after_return(None, note="result dropped") == Outcome(OutcomeKind.DONE, error="result dropped")


# --- a handler that raises --------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 4), (4, 16)])
def test_a_failure_is_retried_after_the_backoff(attempt: int, seconds: float) -> None:
    """The error is stored, and an attempt is used."""
    outcome = policy.after_failure(make_job(attempt=attempt), BOOM, CONTEXT)

    assert outcome == failed(run_at=after_seconds(seconds))
    assert not outcome.keeps_attempt


def test_the_backoff_is_the_handlers_with_jitter() -> None:
    """The jitter comes from the `random` argument."""
    context = RetryContext(NOON, Backoff(base_seconds=10), jitter=1.0)

    assert policy.after_failure(make_job(), BOOM, context) == failed(run_at=after_seconds(22))


@pytest.mark.parametrize("attempt", [5, 6])
def test_a_failure_of_the_last_attempt_is_dead(attempt: int) -> None:
    """The error is stored, with a row in the attempts."""
    assert policy.after_failure(make_job(attempt=attempt, max_attempts=5), BOOM, CONTEXT) == dead()


@given(st.integers(1, 50), st.integers(1, 50))
def test_a_failing_job_is_dead_after_max_attempts(attempt: int, max_attempts: int) -> None:
    """Before that it is pending."""
    outcome = policy.after_failure(make_job(attempt=attempt, max_attempts=max_attempts), BOOM, CONTEXT)

    assert (outcome.kind is OutcomeKind.DEAD) == (attempt >= max_attempts)


# --- a handler that raises a control exception ------------------------------------------------------------


def test_cancel_ends_the_job_with_its_reason() -> None:
    """The reason is one line, and no failed attempt is recorded."""
    outcome = policy.after_control(make_job(), Cancel("order withdrawn"), BOOM, CONTEXT)

    assert outcome == Outcome(OutcomeKind.CANCELLED, error=BOOM.message)


def test_dead_ends_the_job_at_once() -> None:
    """However many attempts are left."""
    assert policy.after_control(make_job(attempt=1), Dead("no such user"), BOOM, CONTEXT) == dead()


def test_a_snooze_until_a_time_uses_no_attempt() -> None:
    """The job is pending until that time."""
    until = datetime(2026, 6, 1, tzinfo=UTC)
    outcome = policy.after_control(make_job(), Snooze(until=until), BOOM, CONTEXT)

    assert outcome == Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True)


@pytest.mark.parametrize("after", [0, 90, timedelta(seconds=90)])
def test_a_snooze_for_a_duration_uses_no_attempt(after: float | timedelta) -> None:
    """The job is pending for that long from now."""
    outcome = policy.after_control(make_job(), Snooze(after=after), BOOM, CONTEXT)

    assert outcome == Outcome(OutcomeKind.SNOOZED, run_at=after_seconds(90 if after else 0), keeps_attempt=True)


@pytest.mark.parametrize("time", [{"after": 90}, {"until": after_seconds(90)}])
def test_the_reason_of_a_snooze_is_stored(time: dict[str, Any]) -> None:
    """In one line that fits its column; the failure is the text of the exception."""
    reason = f"api.example.org is\nrate-limited {'x' * 300}"
    outcome = policy.after_control(make_job(), Snooze(**time, reason=reason), Failure.from_reason(reason), CONTEXT)

    assert (outcome.kind, outcome.run_at) == (OutcomeKind.SNOOZED, after_seconds(90))
    assert outcome.waiting_for == "api.example.org is"
    long = "x" * 300
    outcome = policy.after_control(make_job(), Snooze(**time, reason=long), Failure.from_reason(long), CONTEXT)
    assert outcome.waiting_for == "x" * 190


def test_a_snooze_on_the_last_attempt_is_pending() -> None:
    """A snooze never ends a job."""
    outcome = policy.after_control(make_job(attempt=5, max_attempts=5), Snooze(after=1), BOOM, CONTEXT)

    assert outcome.kind is OutcomeKind.SNOOZED


@pytest.mark.parametrize("after", [0, 45, 45.0, timedelta(seconds=45)])
def test_a_retry_with_a_delay_replaces_the_backoff(after: float | timedelta) -> None:
    """An attempt is used."""
    outcome = policy.after_control(make_job(), Retry(after=after), BOOM, CONTEXT)

    assert outcome == failed(run_at=after_seconds(45 if after else 0))


@pytest.mark.parametrize("control", [Retry(), JobControl("something of their own")])
def test_a_retry_without_a_delay_uses_the_backoff(control: JobControl) -> None:
    """Like any failure."""
    assert policy.after_control(make_job(), control, BOOM, CONTEXT) == failed()


@pytest.mark.parametrize("control", [Retry(), Retry(after=45)])
def test_a_retry_of_the_last_attempt_is_dead(control: Retry) -> None:
    """A handler cannot request more attempts than the job has."""
    assert policy.after_control(make_job(attempt=5, max_attempts=5), control, BOOM, CONTEXT) == dead()


# --- a job that was interrupted ---------------------------------------------------------------------------


def timed_out(reason: str) -> Outcome:
    return failed(OutcomeKind.TIMED_OUT, error=reason, fingerprint=Failure.from_reason(reason).fingerprint)


INTERRUPTED = Outcome(OutcomeKind.RELEASED, keeps_attempt=True, interrupted=True)


@pytest.mark.parametrize("ran", [3.0, 3.09])
@pytest.mark.parametrize("window", [WINDOW, 3.0])
def test_a_job_that_reached_its_own_timeout_has_failed(ran: float, window: float) -> None:
    """An attempt is used, and the error has the limit."""
    outcome = policy.after_interruption(make_job(), Interruption(ran, window, timeout_seconds=3), CONTEXT)

    assert outcome == timed_out("timed out after 3 s")


def test_a_job_that_ended_long_after_its_timeout_has_both_times() -> None:
    """It could not be interrupted at once; that makes no other error."""
    outcome = policy.after_interruption(make_job(), Interruption(5.04, WINDOW, timeout_seconds=2.5), CONTEXT)

    assert outcome.error == "timed out after 2.5 s; ended after 5.0 s"
    assert outcome.fingerprint == timed_out("timed out after 3 s").fingerprint


def test_a_timeout_has_the_stack_of_its_handler() -> None:
    """Below the message; wherever it was, it is the same error."""
    stack = '  File "handlers/mail.py", line 7, in send\n    time.sleep(60)'
    outcome = policy.after_interruption(make_job(), Interruption(3.0, WINDOW, 3, stack), CONTEXT)

    assert outcome.error == f"timed out after 3 s\n{stack}"
    assert outcome.fingerprint == timed_out("timed out after 3 s").fingerprint


@pytest.mark.parametrize("timeout", [None, 3600.0])
@pytest.mark.parametrize("ran", [45.0, 50.0, 54.0])
def test_a_job_that_had_a_full_window_has_failed(ran: float, timeout: float | None) -> None:
    """Another window would not be longer; nine tenths of a window count as full."""
    outcome = policy.after_interruption(make_job(), Interruption(ran, WINDOW, timeout), CONTEXT)

    assert outcome == timed_out(f"timed out after {ran} s, at the end of the runner's window of 50 s")


@pytest.mark.parametrize("timeout", [None, 20.0])
@pytest.mark.parametrize("interruptions", [0, 1, 2])
def test_a_job_that_started_late_is_released(interruptions: int, timeout: float | None) -> None:
    """Its first three interruptions use no attempt."""
    job = make_job(interruptions=interruptions)

    assert policy.after_interruption(job, Interruption(19.9, WINDOW, timeout), CONTEXT) == INTERRUPTED


@pytest.mark.parametrize("interruptions", [3, 4])
def test_the_fourth_interruption_is_a_failure(interruptions: int) -> None:
    """A job that is interrupted every time must not run forever."""
    job = make_job(interruptions=interruptions)

    reason = f"timed out after 4.0 s: interrupted by the end of a window {interruptions + 1} times"
    assert policy.after_interruption(job, Interruption(4.0, WINDOW), CONTEXT) == timed_out(reason)


def test_a_timeout_of_the_last_attempt_is_dead() -> None:
    """The attempt is recorded as timed out."""
    job = make_job(attempt=5, max_attempts=5)
    outcome = policy.after_interruption(job, Interruption(50.0, WINDOW), CONTEXT)

    assert (outcome.kind, outcome.attempt_ending) == (OutcomeKind.DEAD, OutcomeKind.TIMED_OUT)
    assert outcome.error == "timed out after 50.0 s, at the end of the runner's window of 50 s"


# --- a job whose runner died ------------------------------------------------------------------------------


@pytest.mark.parametrize(("crashes", "seconds"), [(0, 2), (1, 4)])
def test_a_crash_is_not_a_failure(crashes: int, seconds: float) -> None:
    """The first two release the job after a wait, as a suspect, without using an attempt."""
    outcome = policy.after_crash(make_job(crashes=crashes), "killed by signal 9", CONTEXT)

    assert outcome.error == "crashed: killed by signal 9"
    assert outcome == Outcome(
        OutcomeKind.CRASHED,
        run_at=after_seconds(seconds),
        error=outcome.error,
        fingerprint=Failure.from_reason("crashed: killed by signal 9").fingerprint,
        keeps_attempt=True,
        crashed=True,
        suspect=True,
        attempt_ending=OutcomeKind.CRASHED,
    )


@pytest.mark.parametrize("attempt", [1, 5])
def test_the_third_crash_is_dead(attempt: int) -> None:
    """However many attempts are left; the crash is counted and recorded."""
    outcome = policy.after_crash(make_job(crashes=2, attempt=attempt), "killed by signal 9", CONTEXT)

    assert (outcome.kind, outcome.run_at, outcome.crashed) == (OutcomeKind.DEAD, None, True)
    assert outcome.error == "crashed 3 times, last: killed by signal 9"
    assert outcome.attempt_ending is OutcomeKind.CRASHED


@pytest.mark.parametrize(("releases", "seconds"), [(0, 2), (1, 4), (9, 1024)])
def test_a_connection_error_uses_no_attempt(releases: int, seconds: float) -> None:
    """The job is released with the backoff of as many failures, and its error is stored."""
    job = make_job(attempt=1, max_attempts=1, rare_fields=RareFields(releases=releases))

    outcome = policy.after_database_error(job, BOOM, CONTEXT)

    assert outcome == Outcome(
        OutcomeKind.RELEASED,
        run_at=after_seconds(seconds),
        error=BOOM.text,
        fingerprint=BOOM.fingerprint,
        keeps_attempt=True,
        counts_release=True,
    )


def test_the_eleventh_connection_error_in_a_row_is_a_failure() -> None:
    """No database error is retried forever."""
    job = make_job(rare_fields=RareFields(releases=10))
    failure = Failure.from_reason("away")

    assert policy.after_database_error(job, failure, CONTEXT) == policy.after_failure(job, failure, CONTEXT)


UNKNOWN = UnknownType("no handler for type 'nop'", " Did you mean 'noop'?", grace=timedelta(hours=1))


@pytest.mark.parametrize(("waited", "delay"), [(0, 2), (1, 2), (30, 30), (900, 300), (3500, 100), (3599.5, 0.5)])
def test_an_unknown_type_waits_as_long_again_as_so_far(waited: float, delay: float) -> None:
    """At most five minutes, and not past the end of the grace period. No attempt is used."""
    since = after_seconds(-waited)
    job = make_job(max_attempts=1, rare_fields=RareFields(unknown_since=since))

    assert policy.after_unknown_type(job, UNKNOWN, CONTEXT) == Outcome(
        OutcomeKind.SNOOZED,
        run_at=after_seconds(delay),
        keeps_attempt=True,
        waiting_for="no handler for type 'nop'",
        unknown_since=since,
    )


def test_the_first_runner_without_a_handler_begins_the_grace_period() -> None:
    """The time is stored with the job."""
    assert policy.after_unknown_type(make_job(), UNKNOWN, CONTEXT).unknown_since == NOON


def test_an_unknown_type_is_dead_at_the_end_of_the_grace_period() -> None:
    """With a reason that names the setting, and without a used attempt."""
    job = make_job(rare_fields=RareFields(unknown_since=after_seconds(-3600)))

    outcome = policy.after_unknown_type(job, UNKNOWN, CONTEXT)

    assert (outcome.kind, outcome.keeps_attempt, outcome.attempt_ending) == ("dead", True, "failed")
    assert outcome.error == "no handler for type 'nop' for 60 min (UNKNOWN_TYPE_GRACE). Did you mean 'noop'?"


@given(waited=st.floats(0, 10_000_000), jitter=st.floats(0, 1))
def test_a_job_waits_for_a_broken_module_without_an_end(waited: float, jitter: float) -> None:
    """Its grace period begins when all modules can be imported: at most the longest delay of it is over then."""
    unknown, context = replace(UNKNOWN, grace=None), replace(CONTEXT, jitter=jitter)
    job = make_job(rare_fields=RareFields(unknown_since=after_seconds(-waited)))

    outcome = policy.after_unknown_type(job, unknown, context)

    assert outcome.kind is OutcomeKind.SNOOZED
    assert outcome.run_at is not None
    assert outcome.unknown_since is not None
    assert after_seconds(2) <= outcome.run_at <= after_seconds(330)
    assert after_seconds(-300) <= outcome.unknown_since <= NOON


@pytest.mark.parametrize(("releases", "run_at"), [(0, None), (1, after_seconds(4)), (9, after_seconds(1024))])
def test_a_job_whose_runner_was_lost_is_run_again_alone(releases: int, run_at: datetime | None) -> None:
    """At once the first time, then with a backoff. It uses no attempt and counts no crash."""
    job = make_job(rare_fields=RareFields(releases=releases))

    assert policy.after_lost_runner(job, "gone", CONTEXT) == Outcome(
        OutcomeKind.RELEASED, run_at=run_at, error="gone", keeps_attempt=True, suspect=True, counts_release=True
    )


def test_a_job_that_lost_eleven_dispatchers_is_dead() -> None:
    """Ten may be bad luck, but a handler can also kill its parent."""
    outcome = policy.after_lost_runner(make_job(rare_fields=RareFields(releases=10)), "gone", CONTEXT)

    assert (outcome.kind, outcome.attempt_ending) == (OutcomeKind.DEAD, OutcomeKind.CRASHED)
    assert outcome.error == "released 10 times in a row, last: gone"


def test_the_only_job_of_a_silent_external_worker_has_crashed() -> None:
    """It is due at once, since the lease was the delay."""
    outcome = policy.after_expired_lease(1, make_job(), NOON)

    assert (outcome.kind, outcome.run_at, outcome.crashed) == (OutcomeKind.CRASHED, None, True)
    assert outcome.error == "crashed: its lease expired before the external worker reported a result"


def test_one_of_several_jobs_of_a_silent_external_worker_is_released() -> None:
    """It is not known which of them ended the worker, so each is run again alone."""
    outcome = policy.after_expired_lease(2, make_job(), NOON)

    error = "its lease expired before the external worker reported a result"
    assert outcome == Outcome(OutcomeKind.RELEASED, error=error, keeps_attempt=True, suspect=True)


@pytest.mark.parametrize(("crashes", "forgiven"), [(0, 19), (1, 18), (0, 25)])
def test_the_twentieth_crash_without_a_slice_is_dead(crashes: int, forgiven: int) -> None:
    """However far the checkpoint moved between the crashes."""
    job = make_job(crashes=crashes, rare_fields=RareFields(forgiven=forgiven))

    outcome = policy.after_crash(job, "killed by signal 9", CONTEXT)

    assert (outcome.kind, outcome.run_at, outcome.crashed) == (OutcomeKind.DEAD, None, True)
    assert outcome.error == f"crashed {crashes + forgiven + 1} times, last: killed by signal 9"


@pytest.mark.parametrize(("crashes", "forgiven", "seconds"), [(0, 18, 2), (1, 17, 4)])
def test_a_job_whose_checkpoint_moves_may_crash_more_often(crashes: int, forgiven: int, seconds: float) -> None:
    """It waits as after its first crash at this checkpoint."""
    job = make_job(crashes=crashes, rare_fields=RareFields(forgiven=forgiven))

    outcome = policy.after_crash(job, "killed by signal 9", CONTEXT)

    assert (outcome.kind, outcome.run_at) == (OutcomeKind.CRASHED, after_seconds(seconds))


def test_a_crash_on_the_last_attempt_is_pending() -> None:
    """The attempt is not used, since the job may not be the cause of the crash."""
    assert policy.after_crash(make_job(attempt=5, max_attempts=5), "killed", CONTEXT).kind is OutcomeKind.CRASHED


def test_an_unseen_death_with_a_single_job_is_its_crash() -> None:
    """A runner that held one job was running it."""
    job = make_job()

    assert policy.after_crash_among(1, job, "gone", CONTEXT) == policy.after_crash(job, "gone", CONTEXT)


@pytest.mark.parametrize("held", [2, 1000])
def test_an_unseen_death_with_several_jobs_makes_suspects(held: int) -> None:
    """Each is released without using an attempt, to be claimed alone; no crash is counted."""
    outcome = policy.after_crash_among(held, make_job(crashes=2), "gone", CONTEXT)

    assert outcome == Outcome(OutcomeKind.RELEASED, error="gone", keeps_attempt=True, suspect=True)


# --- slices -----------------------------------------------------------------------------------------------


def test_a_slice_uses_no_attempt() -> None:
    """The job is pending with its old run_at, so it is the first of its lane in the next cycle."""
    moved = make_job(rare_fields=RareFields(checkpoint="7", stalled=MOVED))

    assert policy.after_slice(moved) == Outcome(OutcomeKind.SLICED, keeps_attempt=True)


@pytest.mark.parametrize(
    ("before", "kind"), [(0, OutcomeKind.SLICED), (18, OutcomeKind.SLICED), (19, OutcomeKind.DEAD)]
)
def test_twenty_slices_without_progress_are_dead(before: int, kind: OutcomeKind) -> None:
    """In a row: a slice that moves the checkpoint restarts the count."""
    outcome = policy.after_slice(make_job(rare_fields=RareFields(checkpoint="7", stalled=before)))

    assert outcome.kind is kind
    if kind is OutcomeKind.DEAD:
        assert outcome.error == "20 slices without a changed checkpoint"


@pytest.mark.parametrize("ran", [1.0, WINDOW])
def test_an_interruption_after_a_changed_checkpoint_is_a_slice(ran: float) -> None:
    """However long the job ran, also at its own timeout."""
    moved = make_job(rare_fields=RareFields(checkpoint="7", stalled=MOVED), interruptions=3)

    outcome = policy.after_interruption(moved, Interruption(ran, WINDOW, timeout_seconds=ran), CONTEXT)

    assert outcome == Outcome(OutcomeKind.SLICED, keeps_attempt=True)
    assert policy.after_stop(moved) == outcome


def test_an_interruption_without_a_changed_checkpoint_is_no_slice() -> None:
    """A checkpoint of an earlier run does not count."""
    stood = make_job(rare_fields=RareFields(checkpoint="7", slices=3))

    assert policy.after_interruption(stood, Interruption(WINDOW, WINDOW), CONTEXT).kind is OutcomeKind.TIMED_OUT
    assert policy.after_stop(stood) is RELEASED
