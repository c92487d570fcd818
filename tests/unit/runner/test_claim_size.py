"""How many jobs the next claim asks for, and how long a runner pauses if it could only snooze jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.claims import MAX_CLAIM, TARGET_BATCH_SECONDS, next_claim_size
from runner.limits import yield_seconds

sizes = st.integers(1, MAX_CLAIM)
job_seconds = st.floats(1e-6, 60)


@pytest.mark.parametrize(
    ("size", "seconds", "following"),
    [
        (5, 1.0, 2),  # slow: halved
        (5, 0.51, 2),
        (5, 0.5, 5),  # in between: unchanged
        (5, 0.25, 5),
        (5, 0.24, 10),  # fast: doubled
        (5, 0.032, 10),
        (5, 0.031, 40),  # very fast: eightfold
        (5, 0.0, 40),
        (600, 0.24, 1000),  # up to the maximum
        (200, 0.0, 1000),
        (1000, 0.0, 1000),
        (1, 50.0, 1),  # never empty
    ],
)
def test_the_claim_size_follows_the_speed_of_the_last_claim(size: int, seconds: float, following: int) -> None:
    """It is doubled below a quarter of a second, eightfold below a 32nd, and halved above half a second."""
    assert next_claim_size(size, size, seconds) == following


def test_a_claim_that_was_not_full_is_scaled_by_its_jobs() -> None:
    """Ten jobs in a tenth of a second: a hundred of them would take a second."""
    assert next_claim_size(100, 10, 0.1) == 50
    assert next_claim_size(100, 10, 0.01) == 200


@given(sizes, sizes, st.floats(0, 1e6))
def test_a_claim_has_1_to_1000_jobs(size: int, jobs: int, seconds: float) -> None:
    """Any measured time gives a size in this range."""
    assert 1 <= next_claim_size(size, jobs, seconds) <= MAX_CLAIM


@given(sizes, job_seconds)
def test_the_claim_size_converges_to_half_a_second(size: int, each: float) -> None:
    """Within a few claims a batch takes a quarter to half a second, or has one job or a thousand."""
    for _ in range(20):
        size = next_claim_size(size, size, size * each)

    held = size * each
    assert next_claim_size(size, size, held) == size
    assert held <= TARGET_BATCH_SECONDS * 1.001 or size == 1
    assert held >= TARGET_BATCH_SECONDS / 2 * 0.999 or size == MAX_CLAIM


@given(sizes, job_seconds)
def test_a_larger_claim_holds_at_most_half_a_second_of_work(size: int, each: float) -> None:
    """As long as its jobs take as long as those of the last claim."""
    following = next_claim_size(size, size, size * each)

    assert following <= size or following * each <= TARGET_BATCH_SECONDS * 1.001


@given(sizes, st.floats(0, 1e3), st.floats(0, 1e3))
def test_slower_jobs_are_never_claimed_in_larger_numbers(size: int, one: float, other: float) -> None:
    """A slower batch never makes the next claim larger."""
    fast, slow = sorted((one, other))

    assert next_claim_size(size, size, slow) <= next_claim_size(size, size, fast)


@pytest.mark.parametrize(
    ("seconds", "runners", "rest"),
    [
        (0.02, 1, 0.18),  # a tenth of the time is used for claims
        (0.02, 5, 0.9),  # by all runners together
        (0.5, 1, 2.0),  # with an upper bound
    ],
)
def test_a_runner_that_could_only_snooze_jobs_pauses(seconds: float, runners: int, rest: float) -> None:
    """For nine times the time it took, times the number of runners of the lane."""
    assert yield_seconds(seconds, runners) == pytest.approx(rest)
