"""What a handler may say of its job, and what is refused while the handler can still be told."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mayfly.queue.outcome import MAX_WAIT_SECONDS, Cancel, Dead, JobControl, Retry, Snooze, seconds

TOMORROW = datetime(2026, 5, 5, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(("given", "number"), [(5, 5.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (0, 0.0)])
def test_a_time_span_is_seconds_or_a_timedelta(given: float | timedelta, number: float) -> None:
    """Both mean the same."""
    assert seconds(given) == number


@pytest.mark.parametrize(
    "given", [float("nan"), float("inf"), float("-inf"), MAX_WAIT_SECONDS + 1, timedelta(days=40_000)]
)
def test_a_time_span_that_no_calendar_holds_is_refused(given: float | timedelta) -> None:
    """When the outcome is written it would be too late: it would break the runner, and the job would come again."""
    with pytest.raises(ValueError, match="within a hundred years"):
        seconds(given)


@pytest.mark.parametrize(("after", "kept"), [(None, None), (30, 30.0), (timedelta(minutes=1), 60.0), (0, 0.0)])
def test_a_retry_knows_after_what_time(after: float | timedelta | None, kept: float | None) -> None:
    """None leaves it to the backoff; zero does not."""
    assert Retry(after=after).after == kept


def test_a_retry_has_a_reason() -> None:
    """The handler's, or that it asked for it."""
    assert (str(Retry("rate limit")), str(Retry())) == ("rate limit", "the handler asked for a retry")


@pytest.mark.parametrize("steer", [Retry, Snooze])
def test_a_wait_that_cannot_be_is_refused_where_it_is_written(steer: type[Retry] | type[Snooze]) -> None:
    """The error is raised inside the handler, whose traceback shows the line."""
    with pytest.raises(ValueError, match="inf seconds"):
        steer(after=float("inf"))


@pytest.mark.parametrize("arguments", [{}, {"until": TOMORROW, "after": 5}])
def test_a_snooze_takes_exactly_one_time(arguments: dict[str, object]) -> None:
    """Neither none nor two, which might disagree."""
    with pytest.raises(TypeError, match=r"either until= .* or after="):
        Snooze(**arguments)  # type: ignore[arg-type]


def test_a_snooze_refuses_a_time_without_a_zone() -> None:
    """Whose noon would it be?"""
    with pytest.raises(TypeError, match="time zone"):
        Snooze(until=datetime(2026, 5, 5, 12, 0))  # noqa: DTZ001


def test_a_snooze_is_until_an_instant() -> None:
    """Whatever zone the handler thinks in, what is kept is UTC."""
    local = TOMORROW.astimezone(timezone(timedelta(hours=9)))
    snooze = Snooze(until=local)

    assert (snooze.until, snooze.until and snooze.until.tzinfo, snooze.after) == (TOMORROW, UTC, None)


def test_a_snooze_beyond_the_calendar_is_refused() -> None:
    """The last day in New York is none in UTC."""
    with pytest.raises(OverflowError):
        Snooze(until=datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))))


@pytest.mark.parametrize("steer", [Retry(), Snooze(after=1), Cancel("no"), Dead("no")])
def test_steering_can_be_told_from_failing(steer: Exception) -> None:
    """One class to catch, and an Exception, so that a handler's own `finally` and `with` see it."""
    assert isinstance(steer, JobControl)


def test_a_snooze_until_what_is_no_time_is_refused() -> None:
    """With the same sentence."""
    with pytest.raises(TypeError, match="needs a datetime with a time zone"):
        Snooze(until="tomorrow")  # type: ignore[arg-type]
