"""Outcomes counted with their durations and waits."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.stats import histograms
from mayfly.stats.histograms import BOUNDS, Count, Key, Sample, Tally

NOOP_DONE: Key = ("default", "noop", "done")
NOOP_FAILED: Key = ("default", "noop", "failed")
LONGEST = BOUNDS[-1]

durations = st.integers(0, 2 * LONGEST)
keys: st.SearchStrategy[Key] = st.tuples(
    st.sampled_from(["default", "mail"]), st.sampled_from(["noop", "sleep"]), st.sampled_from(["done", "failed"])
)
samples: st.SearchStrategy[list[Sample]] = st.lists(
    st.tuples(keys, st.none() | durations, st.none() | durations), max_size=10
)
histograms_of_values = st.lists(durations).map(
    lambda values: dict(Counter(histograms.bucket(value) for value in values))
)


@pytest.mark.parametrize(
    ("milliseconds", "bound"),
    [(-5, 1), (0, 1), (1, 1), (2, 2), (3, 5), (5, 5), (6, 10), (11, 20), (999, 1000), (10**9, LONGEST)],
)
def test_a_bucket_is_named_after_its_upper_bound(milliseconds: int, bound: int) -> None:
    """The bound is inclusive; values outside the range fall into the first or the last bucket."""
    assert histograms.bucket(milliseconds) == bound


@given(st.integers(1, LONGEST))
def test_a_bucket_is_at_most_two_and_a_half_times_too_large(milliseconds: int) -> None:
    """With three steps per decade, a percentile read from the buckets is off by a factor of 2.5 at most."""
    assert milliseconds <= histograms.bucket(milliseconds) <= 2.5 * milliseconds


def test_the_bounds_reach_from_a_millisecond_to_a_day() -> None:
    """They ascend in 1-2-5 steps without a gap, in smaller steps around the ends of windows."""
    assert (BOUNDS[0], BOUNDS[:4]) == (1, (1, 2, 5, 10))
    assert LONGEST >= 24 * 3600 * 1000
    assert all(one < other <= 2.5 * one for one, other in pairwise(BOUNDS))
    assert all(other <= 4 / 3 * one for one, other in pairwise(BOUNDS) if 3000 <= one <= 60_000)
    assert {1000, 2000, 5000, 10_000, 20_000, 50_000} < set(BOUNDS)


def test_samples_are_counted_by_lane_type_and_outcome() -> None:
    """Each has its own histograms; a sample without a duration or a wait is counted too."""
    counted = histograms.count_samples(
        [*7 * [(NOOP_DONE, 3, 40)], (NOOP_DONE, 4, 2), (NOOP_DONE, None, None), (NOOP_FAILED, 700, None)]
    )

    assert counted == {
        NOOP_DONE: Count(9, {5: 8}, {50: 7, 2: 1}),
        NOOP_FAILED: Count(1, {1000: 1}, {}),
    }


@given(samples, samples)
def test_adding_tallies_equals_counting_together(first: list[Sample], second: list[Sample]) -> None:
    """The totals of the runners add up to those of the cycle."""
    apart = histograms.add(histograms.count_samples(first), histograms.count_samples(second))

    assert apart == histograms.count_samples([*first, *second])


@given(samples, samples, samples)
def test_adding_is_associative_and_commutative(a: list[Sample], b: list[Sample], c: list[Sample]) -> None:
    """The order in which rows are read does not matter."""
    one, two, three = (histograms.count_samples(each) for each in (a, b, c))

    assert histograms.add(histograms.add(one, two), three) == histograms.add(one, histograms.add(two, three))
    assert histograms.add(one, two) == histograms.add(two, one)


@given(samples)
def test_the_empty_tally_is_neutral(some: list[Sample]) -> None:
    """Adding it on either side changes nothing."""
    counted: Tally = histograms.count_samples(some)

    assert histograms.add(counted, {}) == histograms.add({}, counted) == counted


def test_adding_does_not_modify_its_arguments() -> None:
    """A tally is a value."""
    first: Tally = {NOOP_DONE: Count(1, {5: 1}, {})}
    histograms.add(first, first)

    assert first == {NOOP_DONE: Count(1, {5: 1}, {})}


@pytest.mark.parametrize(("share", "bound"), [(0.0, 5), (0.5, 5), (0.9, 10), (0.95, 100), (1.0, 1000)])
def test_a_percentile_is_the_bound_of_the_bucket_that_reaches_the_share(share: float, bound: int) -> None:
    """Ninety of a hundred samples lie in the first two buckets."""
    assert histograms.percentile({1000: 1, 5: 80, 100: 9, 10: 10}, share) == bound


def test_without_samples_there_is_no_percentile() -> None:
    """Unknown is not zero."""
    assert histograms.percentile({}, 0.95) is None


@given(st.lists(durations, min_size=1), st.floats(0, 1))
def test_a_percentile_is_not_below_the_true_one(values: list[int], share: float) -> None:
    """At least the given share of the samples is as fast as the percentile."""
    found = histograms.percentile(Counter(histograms.bucket(value) for value in values), share)

    assert found is not None
    assert sum(histograms.bucket(value) <= found for value in values) >= share * len(values)


@given(histograms_of_values)
def test_a_histogram_survives_a_round_trip_through_its_column(histogram: dict[int, int]) -> None:
    """It is stored as JSON text."""
    assert histograms.parse_histogram(histograms.histogram_text(histogram)) == histogram


def test_the_text_of_a_histogram_is_sorted() -> None:
    """Equal histograms have equal texts, in whichever order the samples came."""
    assert histograms.histogram_text({50: 1, 2: 3}) == histograms.histogram_text({2: 3, 50: 1}) == '{"2":3,"50":1}'
