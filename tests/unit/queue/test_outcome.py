"""The control exceptions of a handler: invalid arguments are refused inside the handler."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mayfly.queue.outcome import MAX_WAIT_SECONDS, Cancel, Dead, JobControl, Retry, Snooze, seconds

TOMORROW = datetime(2026, 5, 5, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(("given", "number"), [(5, 5.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (0, 0.0)])
def test_a_duration_is_seconds_or_a_timedelta(given: float | timedelta, number: float) -> None:
    """Both mean the same."""
    assert seconds(given) == number


@pytest.mark.parametrize(
    "given", [float("nan"), float("inf"), float("-inf"), MAX_WAIT_SECONDS + 1, timedelta(days=40_000)]
)
def test_a_duration_beyond_the_calendar_is_refused(given: float | timedelta) -> None:
    """An error while settling would break the runner, and the job would run again."""
    with pytest.raises(ValueError, match="within a hundred years"):
        seconds(given)


@pytest.mark.parametrize(("after", "kept"), [(None, None), (30, 30.0), (timedelta(minutes=1), 60.0), (0, 0.0)])
def test_a_retry_can_have_a_delay(after: float | timedelta | None, kept: float | None) -> None:
    """None means the backoff; zero does not."""
    assert Retry(after=after).after == kept


def test_a_retry_has_a_reason() -> None:
    """Its own, or a text that the handler requested it."""
    assert (str(Retry("rate limit")), str(Retry())) == ("rate limit", "the handler asked for a retry")


@pytest.mark.parametrize("control", [Retry, Snooze])
def test_an_invalid_delay_is_refused_in_the_handler(control: type[Retry] | type[Snooze]) -> None:
    """The traceback shows the handler's line."""
    with pytest.raises(ValueError, match="inf seconds"):
        control(after=float("inf"))


@pytest.mark.parametrize("arguments", [{}, {"until": TOMORROW, "after": 5}])
def test_a_snooze_takes_exactly_one_time(arguments: dict[str, object]) -> None:
    """None and two are refused."""
    with pytest.raises(TypeError, match=r"either until= .* or after="):
        Snooze(**arguments)  # type: ignore[arg-type]


def test_a_snooze_until_a_time_without_a_zone_is_refused() -> None:
    """A local time without a zone is ambiguous."""
    with pytest.raises(TypeError, match="time zone"):
        Snooze(until=datetime(2026, 5, 5, 12, 0))  # noqa: DTZ001


def test_a_snooze_is_kept_in_utc() -> None:
    """The handler can use any zone."""
    local = TOMORROW.astimezone(timezone(timedelta(hours=9)))
    snooze = Snooze(until=local)

    assert (snooze.until, snooze.until and snooze.until.tzinfo, snooze.after) == (TOMORROW, UTC, None)


@pytest.mark.parametrize(("reason", "text"), [(None, "snoozed"), ("", "snoozed"), ("rate-limited", "rate-limited")])
def test_a_snooze_can_have_a_reason(reason: str | None, text: str) -> None:
    """It is the text of the exception, too."""
    snooze = Snooze(after=60, reason=reason)

    assert (snooze.reason, str(snooze)) == (reason or None, text)


def test_a_snooze_beyond_the_calendar_is_refused() -> None:
    """The last day in New York is outside the calendar in UTC."""
    with pytest.raises(OverflowError):
        Snooze(until=datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))))


@pytest.mark.parametrize("control", [Retry(), Snooze(after=1), Cancel("no"), Dead("no")])
def test_control_exceptions_share_a_base_class(control: Exception) -> None:
    """It is an Exception, so the handler's own `finally` and `with` blocks run."""
    assert isinstance(control, JobControl)


def test_a_snooze_until_a_value_that_is_not_a_time_is_refused() -> None:
    """With the same sentence."""
    with pytest.raises(TypeError, match="needs a datetime with a time zone"):
        Snooze(until="tomorrow")  # type: ignore[arg-type]
