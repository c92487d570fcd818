"""Which claimed jobs are run, and the outcome of the others."""

from datetime import timedelta

from mayfly.job import RareFields, SourceRow
from mayfly.queue.outcome import Outcome, OutcomeKind
from mayfly.queue.pauses import PAUSED_FOR, Pause
from mayfly.queue.policy import MAX_UNKNOWN_DELAY, skip_outcome
from mayfly.schema.tables import WAITING_LENGTH
from tests.factories import NOON, make_job

HOUR = timedelta(hours=1)
PAUSE = Pause("type", "noop", NOON - HOUR, reason="the vendor is down")


def test_a_plain_job_is_run() -> None:
    """So is a job with other rare fields."""
    jobs = [make_job(), make_job(rare_fields=RareFields(checkpoint="{}"))]

    assert [skip_outcome(job, None, NOON) for job in jobs] == [None, None]


def test_a_job_with_a_requested_cancellation_is_cancelled() -> None:
    """With the reason and without using an attempt, even if its type is paused."""
    outcome = skip_outcome(make_job(rare_fields=RareFields(cancel_reason="cancelled by ann")), PAUSE, NOON)

    assert outcome == Outcome(OutcomeKind.CANCELLED, error="cancelled by ann", keeps_attempt=True)


def test_a_job_whose_row_was_changed_is_cancelled() -> None:
    """While a retry waited: the change of the application wins."""
    row = SourceRow("posts", "7", values={"id": 7}, is_changed=True)

    reason = "row changed: the application has changed or deleted the row while the job waited"
    assert skip_outcome(make_job(source_row=row), PAUSE, NOON) == Outcome(
        OutcomeKind.CANCELLED, error=reason, keeps_attempt=True
    )


def test_a_job_of_a_source_that_is_not_configured_here_is_snoozed() -> None:
    """Another host may have it. The job of a row that was read is run."""
    unknown, known = SourceRow("posts", "7"), SourceRow("posts", "7", values={"id": 7})

    assert skip_outcome(make_job(source_row=known), None, NOON) is None
    assert skip_outcome(make_job(source_row=unknown), None, NOON) == Outcome(
        OutcomeKind.SNOOZED,
        run_at=NOON + MAX_UNKNOWN_DELAY,
        keeps_attempt=True,
        waiting_for="source posts, which this host does not have or cannot use",
    )


def test_an_expired_job_is_cancelled() -> None:
    """From the instant of its expiry on, even if its type is paused; before that instant it is run."""
    late, in_time = (
        make_job(rare_fields=RareFields(expires_at=NOON)),
        make_job(rare_fields=RareFields(expires_at=NOON + HOUR)),
    )

    outcome = skip_outcome(late, PAUSE, NOON)

    reason = "expired: not started by 2026-05-04 12:00:00 UTC"
    assert outcome == Outcome(OutcomeKind.CANCELLED, error=reason, keeps_attempt=True)
    assert skip_outcome(in_time, None, NOON) is None


def test_a_job_of_a_paused_type_is_snoozed() -> None:
    """For some minutes, with the reason and without using an attempt."""
    outcome = skip_outcome(make_job(), PAUSE, NOON)

    assert outcome == Outcome(
        OutcomeKind.SNOOZED,
        run_at=NOON + PAUSED_FOR,
        keeps_attempt=True,
        waiting_for="type noop is paused: the vendor is down",
    )


def test_a_pause_with_an_end_snoozes_until_then() -> None:
    """No runner checks the job before; from the end on it is run."""
    pause = PAUSE._replace(paused_until=NOON + HOUR)
    at_noon, later = (skip_outcome(make_job(), pause, at) for at in (NOON, NOON + HOUR))

    assert at_noon is not None
    assert (at_noon.run_at, later) == (NOON + HOUR, None)


def test_a_long_reason_is_cut_to_its_column() -> None:
    """The pause has the full text."""
    assert len(PAUSE._replace(reason="x" * 1000).waiting_for) == WAITING_LENGTH


def test_a_job_whose_integration_is_missing_is_cancelled() -> None:
    """The reason lists all missing settings, and no attempt is used."""
    outcome = skip_outcome(make_job(), None, NOON, ("VENDOR_KEY", "VENDOR_URL"))

    assert outcome == Outcome(
        OutcomeKind.CANCELLED, error="integration not configured: VENDOR_KEY, VENDOR_URL", keeps_attempt=True
    )


def test_a_pause_comes_before_a_missing_integration() -> None:
    """An operator may pause a type while its settings are being added."""
    outcome = skip_outcome(make_job(), PAUSE, NOON, ("VENDOR_KEY",))

    assert outcome is not None
    assert outcome.kind is OutcomeKind.SNOOZED
