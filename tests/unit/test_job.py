"""Whether there is time for another step of a long job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.job import MARGIN_SECONDS, is_near

seconds = st.floats(0, 1e6)


@pytest.mark.parametrize(
    ("left", "longest", "near"),
    [(50.0, 0.0, False), (6.0, 5.0, False), (5.9, 5.0, True), (0.5, 0.0, True), (float("-inf"), 0.0, True)],
)
def test_a_job_stops_when_its_longest_step_might_not_fit(left: float, longest: float, near: bool) -> None:
    """With a second to spare, and always after a stop was requested."""
    assert is_near(left, longest) is near


@given(seconds, seconds)
def test_a_step_that_starts_has_enough_time(left: float, longest: float) -> None:
    """A job that continues has at least its longest step and the margin left."""
    assert is_near(left, longest) or left >= longest + MARGIN_SECONDS
