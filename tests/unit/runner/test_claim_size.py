"""How many jobs the next claim asks for, and how long a runner rests that could only put jobs off."""

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
        (5, 0.5, 5),  # what may be held: as it is
        (5, 0.25, 5),
        (5, 0.24, 10),  # fast: doubled
        (5, 0.0, 10),
        (600, 0.0, 1000),  # to the largest and no further
        (1000, 0.0, 1000),
        (1, 50.0, 1),  # a claim is never empty
    ],
)
def test_a_claim_follows_the_speed_of_the_last(size: int, seconds: float, following: int) -> None:
    """Doubled while it takes less than a quarter of a second, halved when more than half."""
    assert next_claim_size(size, size, seconds) == following


def test_a_claim_that_was_not_full_counts_by_its_jobs() -> None:
    """Ten jobs in a tenth of a second are fast, also where a hundred were asked for: those would take a second."""
    assert next_claim_size(100, 10, 0.1) == 50
    assert next_claim_size(100, 10, 0.01) == 200


@given(sizes, sizes, st.floats(0, 1e6))
def test_a_claim_is_from_one_to_a_thousand(size: int, jobs: int, seconds: float) -> None:
    """Whatever was measured."""
    assert 1 <= next_claim_size(size, jobs, seconds) <= MAX_CLAIM


@given(sizes, job_seconds)
def test_what_is_held_settles_at_about_half_a_second(size: int, each: float) -> None:
    """From any first claim, in a few claims, and then it stays: a quarter to a half, or one job, or a thousand."""
    for _ in range(20):
        size = next_claim_size(size, size, size * each)

    held = size * each
    assert next_claim_size(size, size, held) == size
    assert held <= TARGET_BATCH_SECONDS * 1.001 or size == 1
    assert held >= TARGET_BATCH_SECONDS / 2 * 0.999 or size == MAX_CLAIM


@given(sizes, st.floats(0, 1e3), st.floats(0, 1e3))
def test_slower_jobs_are_never_claimed_in_larger_numbers(size: int, one: float, other: float) -> None:
    """The slower the last batch, the smaller the next."""
    fast, slow = sorted((one, other))

    assert next_claim_size(size, size, slow) <= next_claim_size(size, size, fast)


@pytest.mark.parametrize(
    ("seconds", "runners", "rest"),
    [
        (0.02, 1, 0.18),  # a tenth of the time is spent on it
        (0.02, 5, 0.9),  # by all of them together
        (0.5, 1, 2.0),  # and it is not longer than a moment
    ],
)
def test_who_could_only_put_jobs_off_rests(seconds: float, runners: int, rest: float) -> None:
    """Nine times as long as it took, for each runner of the lane."""
    assert yield_seconds(seconds, runners) == pytest.approx(rest)
