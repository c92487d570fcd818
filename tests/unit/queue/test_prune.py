"""Since when rows are kept: never shorter than asked for, and pruned many at a time."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.prune import STEPS, cutoff
from tests.factories import NOON

days = st.floats(0.001, 3650)
spans = st.timedeltas(timedelta(0), timedelta(days=365))


@given(days, spans)
def test_rows_are_kept_as_long_as_asked_for_and_little_longer(kept: float, later: timedelta) -> None:
    """A hundredth longer at most."""
    now = NOON + later
    over = now - timedelta(days=kept) - cutoff(now, kept)

    assert timedelta(0) <= over <= timedelta(days=kept) / STEPS


@given(days, spans, spans)
def test_the_cutoff_never_moves_back(kept: float, first: timedelta, then: timedelta) -> None:
    """What is gone was rightly gone."""
    assert cutoff(NOON + first, kept) <= cutoff(NOON + first + then, kept)


@pytest.mark.parametrize(("kept", "cycles"), [(7, 100), (90, 1296)])
def test_most_cycles_find_nothing_to_prune(kept: float, cycles: int) -> None:
    """A row a minute is left behind, and goes with many others: of so many cycles in a row two at most prune."""
    cutoffs = {cutoff(NOON + timedelta(minutes=minute), kept) for minute in range(cycles)}

    assert len(cutoffs) <= 2


@pytest.mark.parametrize("kept", [1e-12, 1e-9, 36500.0])
def test_extremes_are_no_errors(kept: float) -> None:
    """Whatever KEEP_DONE_DAYS may be."""
    assert cutoff(NOON, kept) <= NOON
