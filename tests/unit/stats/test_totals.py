"""Counting settled jobs."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mayfly.job import Job
from mayfly.queue.outcome import DONE, RELEASED, Settlement
from mayfly.stats.histograms import Count, add
from mayfly.stats.totals import count
from tests.factories import make_job

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)

ages = st.none() | st.timedeltas(timedelta(seconds=-5), timedelta(hours=1))
jobs: st.SearchStrategy[Job] = st.builds(
    lambda type_name, age: make_job(type=type_name, run_at=None if age is None else NOW - age),
    st.sampled_from(["mail", "import"]),
    ages,
)
settlements = st.lists(
    st.builds(Settlement, jobs, st.sampled_from([DONE, RELEASED]), st.sampled_from([None, 0, 1, 700])), max_size=30
)


def test_equal_jobs_are_one_count() -> None:
    """Durations and waits are in their buckets; the wait of a job is its age without its own run."""
    backlog = [Settlement(make_job(run_at=NOW - timedelta(milliseconds=age)), DONE, 4) for age in (13, 14, 24, 104)]

    assert count(backlog, NOW) == {("default", "noop", "done"): Count(4, {5: 4}, {10: 2, 20: 1, 100: 1})}


@given(settlements)
def test_counting_together_equals_counting_one_by_one(settled: list[Settlement]) -> None:
    """Sharing the arithmetic of equal jobs changes no figure."""
    one_by_one: dict[tuple[str, str, str], Count] = {}
    for each in settled:
        one_by_one = add(one_by_one, count([each], NOW))

    assert count(settled, NOW) == one_by_one
