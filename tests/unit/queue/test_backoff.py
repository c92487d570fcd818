"""How long a failed job waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.policy import MAX_JITTER, Backoff

USUAL = [(1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, 64), (7, 128), (8, 256), (9, 512), (10, 1024), (11, 2048)]
backoffs = st.builds(Backoff, base_seconds=st.floats(0.001, 3600), cap_seconds=st.floats(0.001, 86_400))
attempts = st.integers(1, 10_000)


@pytest.mark.parametrize(("attempt", "seconds"), [*USUAL, (12, 3600), (13, 3600), (1000, 3600)])
def test_the_default_backoff_follows_the_table(attempt: int, seconds: float) -> None:
    """With base 1 and cap 3,600: 2, 4, 8, … 2048 seconds, then an hour."""
    assert Backoff().delay(attempt) == seconds


@pytest.mark.parametrize(("attempt", "seconds"), [*USUAL[:8], (9, 300), (10, 300), (1000, 300)])
def test_a_cap_of_300_ends_the_table_there(attempt: int, seconds: float) -> None:
    """A cap of five minutes gives 2, 4, … 256 seconds, then 300."""
    assert Backoff(cap_seconds=300).delay(attempt) == seconds


def test_the_base_scales_the_table() -> None:
    """The base multiplies each step."""
    assert [Backoff(base_seconds=5).delay(attempt) for attempt in (1, 2, 3)] == [10, 20, 40]


@given(backoffs, attempts, st.floats(0, 1))
def test_jitter_lengthens_a_wait_by_at_most_a_tenth(backoff: Backoff, attempt: int, jitter: float) -> None:
    """Jobs that failed together are spread, and none is retried early."""
    plain, jittered = backoff.delay(attempt), backoff.delay(attempt, jitter)

    assert plain <= jittered <= plain * (1 + MAX_JITTER)


@given(backoffs, attempts)
def test_a_later_attempt_never_waits_less(backoff: Backoff, attempt: int) -> None:
    """The wait grows with the attempts up to the cap."""
    assert backoff.delay(attempt) <= backoff.delay(attempt + 1) <= backoff.cap_seconds


@given(backoffs, attempts)
def test_randomness_comes_from_the_argument_only(backoff: Backoff, attempt: int) -> None:
    """Equal arguments give equal waits."""
    assert backoff.delay(attempt, 0.5) == backoff.delay(attempt, 0.5)
