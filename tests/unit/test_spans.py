"""How long a time is, as people say it."""

from datetime import timedelta

import pytest

from mayfly.format import moment, span
from tests.factories import NOON


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0 s"), (0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"), (172_799, "47 h"),
     (172_800, "2 days"), (8_640_000, "100 days")],
)  # fmt: skip
def test_a_span_is_told_in_the_largest_unit_of_which_there_are_two(seconds: int, said: str) -> None:
    """What is in the future of something else is no time at all."""
    assert span(timedelta(seconds=seconds)) == said


def test_a_moment_is_told_in_utc() -> None:
    """To the second."""
    assert moment(NOON) == "2026-05-04 12:00:00 UTC"
