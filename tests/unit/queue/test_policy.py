"""What becomes of a job after each way in which its run can end."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.job import MOVED, RareFields
from mayfly.queue import policy
from mayfly.queue.failure import Failure
from mayfly.queue.outcome import DONE, RELEASED, Cancel, Dead, JobControl, Outcome, OutcomeKind, Retry, Snooze
from mayfly.queue.policy import Backoff, Interruption, RetryContext
from tests.factories import NOON, make_job

BOOM = Failure("ValueError: boom", "ValueError: boom\n  File …", "f1ngerpr1nt")
CHANCES = RetryContext(NOON, Backoff())
WINDOW = 50.0


def after_seconds(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def failed(ending: OutcomeKind = OutcomeKind.FAILED, **changes: Any) -> Outcome:
    """What a failure that has attempts left looks like."""
    fields = {"run_at": after_seconds(2), "error": BOOM.text, "fingerprint": BOOM.fingerprint}
    return Outcome(ending, **{**fields, "attempt_ending": ending, **changes})


def dead(ending: OutcomeKind = OutcomeKind.FAILED) -> Outcome:
    return Outcome(OutcomeKind.DEAD, error=BOOM.text, fingerprint=BOOM.fingerprint, attempt_ending=ending)


# --- a handler that returns -------------------------------------------------------------------------------


def test_a_plain_return_is_done() -> None:
    """Nothing returned: done, and the very same value for every job, so that they share a statement."""
    assert policy.after_return(None) is DONE


def test_a_result_is_kept() -> None:
    """What a handler returned is written with `done`."""
    assert policy.after_return('{"sent":3}') == Outcome(OutcomeKind.DONE, result='{"sent":3}')


def test_a_result_that_cannot_be_kept_is_still_done() -> None:
    """The work has been done: the note is the job's error text, its status is not."""
    assert policy.after_return(None, note="result dropped") == Outcome(OutcomeKind.DONE, error="result dropped")


# --- a handler that raises --------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 4), (4, 16)])
def test_a_failure_is_tried_again_after_the_backoff(attempt: int, seconds: float) -> None:
    """With attempts left a failed job comes back when the backoff says, its error kept, its attempt spent."""
    outcome = policy.after_failure(make_job(attempt=attempt), BOOM, CHANCES)

    assert outcome == failed(run_at=after_seconds(seconds))
    assert not outcome.keeps_attempt


def test_the_handlers_backoff_and_the_dice_count() -> None:
    """The wait is the handler's own backoff, made longer by chance."""
    chances = RetryContext(NOON, Backoff(base_seconds=10), jitter=1.0)

    assert policy.after_failure(make_job(), BOOM, chances) == failed(run_at=after_seconds(22))


@pytest.mark.parametrize("attempt", [5, 6])
def test_the_last_attempt_is_the_end(attempt: int) -> None:
    """A failure of the last attempt leaves the job dead, with its error and a row among the attempts."""
    assert policy.after_failure(make_job(attempt=attempt, max_attempts=5), BOOM, CHANCES) == dead()


@given(st.integers(1, 50), st.integers(1, 50))
def test_a_failing_job_is_run_as_often_as_it_may_be(attempt: int, max_attempts: int) -> None:
    """Dead after exactly max_attempts, pending before."""
    outcome = policy.after_failure(make_job(attempt=attempt, max_attempts=max_attempts), BOOM, CHANCES)

    assert (outcome.kind is OutcomeKind.DEAD) == (attempt >= max_attempts)


# --- a handler that steers --------------------------------------------------------------------------------


def test_cancel_ends_the_job_with_its_reason() -> None:
    """Cancelled, with one line of reason; no failed attempt is recorded."""
    outcome = policy.after_control(make_job(), Cancel("order withdrawn"), BOOM, CHANCES)

    assert outcome == Outcome(OutcomeKind.CANCELLED, error=BOOM.message)


def test_dead_ends_the_job_at_once() -> None:
    """Trying again cannot help: dead, however many attempts are left."""
    assert policy.after_control(make_job(attempt=1), Dead("no such user"), BOOM, CHANCES) == dead()


def test_a_snooze_until_a_time_costs_nothing() -> None:
    """The job waits for the given time, and its attempt is given back."""
    until = datetime(2026, 6, 1, tzinfo=UTC)
    outcome = policy.after_control(make_job(), Snooze(until=until), BOOM, CHANCES)

    assert outcome == Outcome(OutcomeKind.SNOOZED, run_at=until, keeps_attempt=True)


@pytest.mark.parametrize("after", [0, 90, timedelta(seconds=90)])
def test_a_snooze_for_a_while_costs_nothing(after: float | timedelta) -> None:
    """The job waits that long from now, and its attempt is given back."""
    outcome = policy.after_control(make_job(), Snooze(after=after), BOOM, CHANCES)

    assert outcome == Outcome(OutcomeKind.SNOOZED, run_at=after_seconds(90 if after else 0), keeps_attempt=True)


def test_a_snooze_never_ends_a_job() -> None:
    """Also on its last attempt a snoozed job comes back."""
    outcome = policy.after_control(make_job(attempt=5, max_attempts=5), Snooze(after=1), BOOM, CHANCES)

    assert outcome.kind is OutcomeKind.SNOOZED


@pytest.mark.parametrize("after", [0, 45, 45.0, timedelta(seconds=45)])
def test_a_retry_after_some_time_replaces_the_backoff(after: float | timedelta) -> None:
    """The job comes back when the handler said, and the attempt is spent."""
    outcome = policy.after_control(make_job(), Retry(after=after), BOOM, CHANCES)

    assert outcome == failed(run_at=after_seconds(45 if after else 0))


@pytest.mark.parametrize("steer", [Retry(), JobControl("something of their own")])
def test_a_retry_without_a_time_takes_the_backoff(steer: JobControl) -> None:
    """Like any failure."""
    assert policy.after_control(make_job(), steer, BOOM, CHANCES) == failed()


@pytest.mark.parametrize("steer", [Retry(), Retry(after=45)])
def test_a_retry_of_the_last_attempt_is_the_end(steer: Retry) -> None:
    """A handler cannot ask for more attempts than the job has."""
    assert policy.after_control(make_job(attempt=5, max_attempts=5), steer, BOOM, CHANCES) == dead()


# --- a job whose time was up ------------------------------------------------------------------------------


def timed_out(ran: float, job_attempt: int = 1) -> Outcome:
    failure = Failure.from_reason(f"timed out after {ran:.1f} s")
    return failed(
        OutcomeKind.TIMED_OUT,
        run_at=after_seconds(2**job_attempt),
        error=failure.text,
        fingerprint=failure.fingerprint,
    )


GIVEN_BACK = Outcome(OutcomeKind.RELEASED, keeps_attempt=True, interrupted=True)


@pytest.mark.parametrize("ran", [20.0, 20.4])
def test_a_job_that_had_its_own_timeout_has_failed(ran: float) -> None:
    """Its own limit was reached: an attempt is spent, the error says after how long."""
    outcome = policy.after_interruption(make_job(), Interruption(ran, WINDOW, timeout_seconds=20), CHANCES)

    assert outcome == timed_out(ran)
    assert outcome.error == f"timed out after {ran} s"


@pytest.mark.parametrize("timeout", [None, 3600.0])
@pytest.mark.parametrize("ran", [45.0, 50.0, 54.0])
def test_a_job_that_had_a_whole_window_has_failed(ran: float, timeout: float | None) -> None:
    """Another window would not be longer: nine tenths of one are counted as whole."""
    outcome = policy.after_interruption(make_job(), Interruption(ran, WINDOW, timeout), CHANCES)

    assert outcome == timed_out(ran)


@pytest.mark.parametrize("timeout", [None, 20.0])
@pytest.mark.parametrize("interruptions", [0, 1, 2])
def test_a_job_that_came_late_is_given_back_unspent(interruptions: int, timeout: float | None) -> None:
    """Interrupted before its time through no fault of its own: three times at most it costs nothing."""
    job = make_job(interruptions=interruptions)

    assert policy.after_interruption(job, Interruption(19.9, WINDOW, timeout), CHANCES) == GIVEN_BACK


@pytest.mark.parametrize("interruptions", [3, 4])
def test_the_fourth_interruption_is_a_failure(interruptions: int) -> None:
    """A job that comes late every time must not be run for ever."""
    job = make_job(interruptions=interruptions)

    assert policy.after_interruption(job, Interruption(4.0, WINDOW), CHANCES) == timed_out(4.0)


def test_a_timeout_of_the_last_attempt_is_the_end() -> None:
    """Dead, and the attempt is recorded as timed out."""
    job = make_job(attempt=5, max_attempts=5)
    outcome = policy.after_interruption(job, Interruption(50.0, WINDOW), CHANCES)

    assert (outcome.kind, outcome.attempt_ending) == (OutcomeKind.DEAD, OutcomeKind.TIMED_OUT)
    assert outcome.error == "timed out after 50.0 s"


# --- a job whose process died -----------------------------------------------------------------------------


@pytest.mark.parametrize(("crashes", "seconds"), [(0, 2), (1, 4)])
def test_a_crash_is_not_a_failure(crashes: int, seconds: float) -> None:
    """The first two: pending again after a wait, a suspect from now on, no attempt spent."""
    outcome = policy.after_crash(make_job(crashes=crashes), "killed by signal 9", CHANCES)

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
def test_the_third_crash_is_the_last(attempt: int) -> None:
    """Dead with the reason, however many attempts are left; the crash is counted and recorded."""
    outcome = policy.after_crash(make_job(crashes=2, attempt=attempt), "killed by signal 9", CHANCES)

    assert (outcome.kind, outcome.run_at, outcome.crashed) == (OutcomeKind.DEAD, None, True)
    assert outcome.error == "crashed 3 times, at last: killed by signal 9"
    assert outcome.attempt_ending is OutcomeKind.CRASHED


@pytest.mark.parametrize(("releases", "seconds"), [(0, 2), (1, 4), (9, 1024)])
def test_an_error_of_the_connection_spends_no_attempt(releases: int, seconds: float) -> None:
    """The job is released with the backoff of as many failures, and its error is kept."""
    job = make_job(attempt=1, max_attempts=1, special=RareFields(releases=releases))

    outcome = policy.after_database_error(job, Failure.from_reason("away"), CHANCES)

    assert (outcome.kind, outcome.keeps_attempt, outcome.counts_release) == (OutcomeKind.RELEASED, True, True)
    assert (outcome.run_at, outcome.error) == (NOON + timedelta(seconds=seconds), "away")


def test_the_eleventh_error_of_the_connection_is_a_failure() -> None:
    """In a row: no error of the database is retried for ever."""
    job = make_job(special=RareFields(releases=10))
    failure = Failure.from_reason("away")

    assert policy.after_database_error(job, failure, CHANCES) == policy.after_failure(job, failure, CHANCES)


def test_a_job_dies_with_its_eleventh_dispatcher() -> None:
    """Ten may be bad luck; a handler may also kill its parent."""
    outcomes = [
        policy.after_lost_runner(make_job(special=RareFields(releases=releases)), "gone", CHANCES)
        for releases in (0, 9, 10)
    ]

    assert [each.kind for each in outcomes] == [OutcomeKind.RELEASED, OutcomeKind.RELEASED, OutcomeKind.DEAD]
    assert [(each.keeps_attempt, each.crashed) for each in outcomes[:2]] == [(True, False)] * 2
    assert outcomes[2].error == "released 10 times in a row, at last: gone"


@pytest.mark.parametrize(("crashes", "forgiven"), [(0, 19), (1, 18), (0, 25)])
def test_the_twentieth_crash_without_a_slice_is_the_last(crashes: int, forgiven: int) -> None:
    """However far the job got between them."""
    job = make_job(crashes=crashes, special=RareFields(forgiven=forgiven))

    outcome = policy.after_crash(job, "killed by signal 9", CHANCES)

    assert (outcome.kind, outcome.run_at, outcome.crashed) == (OutcomeKind.DEAD, None, True)
    assert outcome.error == f"crashed {crashes + forgiven + 1} times, at last: killed by signal 9"


@pytest.mark.parametrize(("crashes", "forgiven", "seconds"), [(0, 18, 2), (1, 17, 4)])
def test_who_got_further_may_crash_more_often(crashes: int, forgiven: int, seconds: float) -> None:
    """It comes back as after its first crash at this checkpoint."""
    job = make_job(crashes=crashes, special=RareFields(forgiven=forgiven))

    outcome = policy.after_crash(job, "killed by signal 9", CHANCES)

    assert (outcome.kind, outcome.run_at) == (OutcomeKind.CRASHED, after_seconds(seconds))


def test_a_crash_on_the_last_attempt_is_no_end() -> None:
    """The attempt is given back: a job is not dead for what somebody did to its process."""
    assert policy.after_crash(make_job(attempt=5, max_attempts=5), "killed", CHANCES).kind is OutcomeKind.CRASHED


def test_an_unseen_death_over_a_single_job_is_its_crash() -> None:
    """A runner that held one job was running it."""
    job = make_job()

    assert policy.after_crash_among(1, job, "gone", CHANCES) == policy.after_crash(job, "gone", CHANCES)


@pytest.mark.parametrize("held", [2, 1000])
def test_an_unseen_death_over_many_jobs_makes_suspects(held: int) -> None:
    """Any of them may be the culprit: each goes back unspent, to be claimed alone, and none is blamed yet."""
    outcome = policy.after_crash_among(held, make_job(crashes=2), "gone", CHANCES)

    assert outcome == Outcome(OutcomeKind.RELEASED, keeps_attempt=True, suspect=True)


# --- slices -----------------------------------------------------------------------------------------------


def test_a_slice_costs_nothing() -> None:
    """Pending as it was due, with its attempt back: the first of its lane in the next cycle."""
    moved = make_job(special=RareFields(checkpoint="7", stalled=MOVED))

    assert policy.after_slice(moved) == Outcome(OutcomeKind.SLICED, keeps_attempt=True)


@pytest.mark.parametrize(
    ("before", "kind"), [(0, OutcomeKind.SLICED), (18, OutcomeKind.SLICED), (19, OutcomeKind.DEAD)]
)
def test_twenty_slices_that_stand_still_are_the_end(before: int, kind: OutcomeKind) -> None:
    """In a row: one that moves begins to count anew."""
    outcome = policy.after_slice(make_job(special=RareFields(checkpoint="7", stalled=before)))

    assert outcome.kind is kind
    if kind is OutcomeKind.DEAD:
        assert outcome.error == "20 slices without a changed checkpoint"


@pytest.mark.parametrize("ran", [1.0, WINDOW])
def test_an_interruption_after_a_changed_checkpoint_is_a_slice(ran: float) -> None:
    """However long it ran, and by its own limit too: it was well on its way."""
    moved = make_job(special=RareFields(checkpoint="7", stalled=MOVED), interruptions=3)

    outcome = policy.after_interruption(moved, Interruption(ran, WINDOW, timeout_seconds=ran), CHANCES)

    assert outcome == Outcome(OutcomeKind.SLICED, keeps_attempt=True)
    assert policy.after_stop(moved) == outcome


def test_without_one_it_is_what_it_was() -> None:
    """A checkpoint of an earlier run does not help a job that stands still in this one."""
    stood = make_job(special=RareFields(checkpoint="7", slices=3))

    assert policy.after_interruption(stood, Interruption(WINDOW, WINDOW), CHANCES).kind is OutcomeKind.TIMED_OUT
    assert policy.after_stop(stood) is RELEASED
