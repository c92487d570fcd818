"""Rows are kept at least as long as configured and pruned in bulk."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.queue.prune import CUTOFF_STEPS, cutoff
from tests.factories import NOON

days = st.floats(0.001, 3650)
spans = st.timedeltas(timedelta(0), timedelta(days=365))


@given(days, spans)
def test_rows_are_kept_as_configured_and_hardly_longer(kept: float, later: timedelta) -> None:
    """At most a hundredth longer."""
    now = NOON + later
    over = now - timedelta(days=kept) - cutoff(now, kept)

    assert timedelta(0) <= over <= timedelta(days=kept) / CUTOFF_STEPS


@given(days, spans, spans)
def test_the_cutoff_never_moves_back(kept: float, first: timedelta, then: timedelta) -> None:
    """Deleted rows stay outside the retention."""
    assert cutoff(NOON + first, kept) <= cutoff(NOON + first + then, kept)


@pytest.mark.parametrize(("kept", "cycles"), [(7, 100), (90, 1296)])
def test_most_cycles_have_nothing_to_prune(kept: float, cycles: int) -> None:
    """One row expires per minute, but of this many consecutive cycles at most two prune."""
    cutoffs = {cutoff(NOON + timedelta(minutes=minute), kept) for minute in range(cycles)}

    assert len(cutoffs) <= 2


@pytest.mark.parametrize("kept", [1e-12, 1e-9, 36500.0])
def test_extreme_retentions_are_valid(kept: float) -> None:
    """Every value that KEEP_DONE_DAYS accepts works."""
    assert cutoff(NOON, kept) <= NOON
