"""How long jobs usually take, and whether one still fits into a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.job import RareFields
from mayfly.stats.durations import MAX_TYPES, MIN_RUNS, Recent, TypeDurations, fits, may_be_deferred, type_durations
from mayfly.stats.histograms import bucket, histogram_text
from tests.factories import make_job

seconds = st.floats(0, 200)


def runs(
    number: int, seconds: float, outcome: str = "done", type_name: str = "render", lane: str = "default"
) -> Recent:
    """One row of the totals."""
    return lane, type_name, outcome, histogram_text({bucket(round(1000 * seconds)): number})


def test_what_is_usual_is_the_95th_percentile_of_a_lane_and_type() -> None:
    """Of all rows together, by the bound of its bucket."""
    found = type_durations(
        [runs(60, 2.5), runs(34, 11), runs(6, 38), runs(100, 12, lane="mail"), runs(100, 0.3, type_name="thumb")]
    )

    assert found == TypeDurations({"default": {"render": 40}, "mail": {"render": 12}})
    assert found.of("nowhere") == {}


def test_five_of_a_hundred_are_not_usual() -> None:
    """Who hangs once in a while does not make its type slow."""
    assert type_durations([runs(95, 0.4), runs(5, 45)]) == TypeDurations()


@pytest.mark.parametrize(("number", "is_known"), [(MIN_RUNS - 1, False), (MIN_RUNS, True)])
def test_a_few_runs_say_nothing(number: int, is_known: bool) -> None:
    """From twenty on."""
    assert bool(type_durations([runs(number, 30)]).of("default")) is is_known


@pytest.mark.parametrize(("longest", "is_known"), [(0.9, False), (1.0, False), (1.1, True)])
def test_what_takes_a_second_is_not_worth_a_thought(longest: float, is_known: bool) -> None:
    """Runners know nothing of such types, and ask for nothing."""
    assert bool(type_durations([runs(100, longest)]).of("default")) is is_known


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        ("done", True), ("failed", True), ("dead", True), ("cancelled", True), ("snoozed", True), ("timed out", True),
        ("released", False), ("crashed", False),
    ],
)  # fmt: skip
def test_runs_that_were_cut_short_say_nothing(outcome: str, counts: bool) -> None:
    """An interrupted run was ended by what was left of a window; one that timed out took that long, and more."""
    assert bool(type_durations([runs(100, 20, outcome)]).of("default")) is counts


def test_what_goes_on_in_slices_is_never_deferred() -> None:
    """It can use any rest of a window."""
    assert type_durations([runs(100, 45), runs(1, 48, "sliced")]).of("default") == {}


def test_lanes_that_have_deferred_are_known() -> None:
    """Whatever is known of the types: the oldest job that came back is looked for there."""
    assert type_durations([("mail", "render", "deferred", "{}"), runs(1, 1)]).deferred == {"mail"}


def test_of_many_long_types_the_longest_are_told() -> None:
    """An assignment has to fit into a packet."""
    many = [runs(20, 10, type_name=f"type {number:03}") for number in range(MAX_TYPES)]

    found = type_durations([*many, runs(20, 40, type_name="slowest")]).of("default")

    assert (len(found), next(iter(found.items()))) == (MAX_TYPES, ("slowest", 40))


@pytest.mark.parametrize(
    ("usual", "left", "is_whole", "starts"),
    [
        (20, 20, True, True),
        (20, 19.9, True, False),
        (20, 19.9, False, False),
        (60, 50, True, True),  # nobody will ever have more for it
        (60, 50, False, False),  # but a runner that began at the start of a cycle will
        (60, 45, True, True),  # as good as whole
        (60, 44, True, False),
    ],
)
def test_a_job_is_started_where_it_fits_or_gets_a_whole_window(
    usual: float, left: float, is_whole: bool, starts: bool
) -> None:
    """Of fifty seconds."""
    assert fits(usual, left, 50, is_whole) is starts


@given(seconds, seconds)
def test_the_first_job_of_a_whole_window_is_always_started(usual: float, most: float) -> None:
    """So that no job is put off for ever, however long its type takes and however short windows are."""
    assert fits(usual, most, most, is_whole=True)


def test_whom_nobody_could_replace_is_not_deferred() -> None:
    """A suspect stops its lane until it is run; a job with a checkpoint goes on in any window."""
    assert may_be_deferred(make_job())
    assert may_be_deferred(make_job(special=RareFields(slices=0)))
    assert not may_be_deferred(make_job(suspect=True))
    assert not may_be_deferred(make_job(special=RareFields(checkpoint="7")))
