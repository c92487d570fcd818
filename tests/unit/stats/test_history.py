"""Figures over time: every sample is in one point, and a chart has a fixed number of points."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mayfly.admin.charts import PERIODS, ChartPoint, Period, points_of, rows_of
from mayfly.clock import milliseconds
from mayfly.queue.prune import CHARTED, EIGHT_HOURS, MINUTE, QUARTER, SPANS, TWO_HOURS, chart_cutoff
from mayfly.stats.histograms import BOUNDS, Count
from mayfly.stats.history import CYCLE, Sample, begin_of, by_span, charted, of_cycles, of_tally

NOW = datetime(2026, 5, 4, 12, 34, 56, tzinfo=UTC)
DAY = timedelta(days=1)

nows = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - given one
periods = st.sampled_from(sorted(PERIODS.values()))
counts = st.builds(
    lambda jobs, bound: Count(jobs, {bound: jobs}, {bound: jobs}), st.integers(1, 10**6), st.sampled_from(BOUNDS)
)


def samples_before(now: datetime, longest: timedelta) -> st.SearchStrategy[list[Sample]]:
    ages = st.integers(0, longest // timedelta(milliseconds=1)).map(lambda age: milliseconds(now) - age)
    return st.lists(st.tuples(ages, st.sampled_from(["done", "failed", "dead", CYCLE]), counts), max_size=30)


def points(samples: list[Sample], period: Period) -> list[ChartPoint]:
    return list(points_of(rows_of(samples), period, NOW))


@given(nows, periods)
def test_the_points_of_a_period_are_contiguous(now: datetime, period: Period) -> None:
    """Each begins where the previous one ends, and the last one covers at least a minute so far."""
    begins = period.begins(now)

    assert len(begins) == period.points <= 100
    assert {later - earlier for earlier, later in pairwise(begins)} == {period.step * 1000}
    assert timedelta(minutes=1) <= now - datetime.fromtimestamp(begins[-1] / 1000, UTC)
    assert milliseconds(now) - begins[-1] < (period.step + MINUTE) * 1000


@given(periods)
def test_a_point_consists_of_whole_spans(period: Period) -> None:
    """Spans are kept for as long as the chart goes back."""
    assert period.step % period.span == 0
    assert period.span == EIGHT_HOURS or CHARTED[period.span] > timedelta(seconds=period.step * (period.points + 1))


@given(st.data(), periods)
def test_every_sample_is_in_exactly_one_point(data: st.DataObject, period: Period) -> None:
    """If it is younger than the first point; it makes no difference whether it comes in spans or alone."""
    samples = data.draw(samples_before(NOW, timedelta(days=31)))
    first, last = period.begins(NOW)[0], period.begins(NOW)[-1] + period.step * 1000
    rows = [(at, outcome, count) for (span, at, outcome), count in by_span(samples).items() if span == period.span]

    one_by_one, by_rows = points(samples, period), points(rows, period)

    expected = sum(count.jobs for at, outcome, count in samples if outcome == "done" and first <= at < last)
    assert sum(each.done for each in one_by_one) == expected
    assert by_rows == one_by_one


@given(samples_before(NOW, DAY))
def test_the_median_wait_is_not_above_the_95th_percentile(samples: list[Sample]) -> None:
    """Percentiles are ordered, and missing where there are no samples."""
    for each in points(samples, PERIODS["24h"]):
        assert (each.wait_p50_ms is None) == (each.wait_p95_ms is None)
        assert (each.wait_p50_ms or 0) <= (each.wait_p95_ms or 0)
        assert (each.cycle_p50_ms or 0) <= (each.cycle_p95_ms or 0)


def test_cycles_are_separate_from_jobs() -> None:
    """The duration of a cycle is not the wait of a job, and a cycle is not counted as a job."""
    at = milliseconds(NOW - timedelta(minutes=5))
    tally = {("mail", "send", "done"): Count(3, {10: 3}, {200: 3}), ("mail", "send", "timed out"): Count(2)}

    found = points([*of_tally(at, tally), *of_cycles({at: 1500})], PERIODS["1h"])
    [point] = [each for each in found if each.cycles]

    assert (point.done, point.failed, point.dead, point.cycles) == (3, 2, 0, 1)
    assert (point.wait_p50_ms, point.cycle_p50_ms) == (200, 2000)


def test_the_current_point_has_not_lasted_a_whole_step() -> None:
    """A rate is per elapsed time."""
    *_, last = points([], PERIODS["24h"])

    assert last.begins_at == NOW.replace(minute=30, second=0)
    assert last.minutes == pytest.approx(4 + 56 / 60)


@given(st.integers(0, 2**45), st.sampled_from(SPANS))
def test_a_time_lies_in_its_span(at: int, span: int) -> None:
    """Not before the start of the span, and before its end."""
    assert begin_of(at, span) <= at < begin_of(at, span) + span * 1000
    assert begin_of(at, span) % (span * 1000) == 0


def test_old_samples_are_not_kept_in_short_spans() -> None:
    """A day of idle minutes is counted in one step when the first busy one follows."""
    old = milliseconds(NOW - timedelta(hours=20))

    assert {span for span, _, _ in by_span(of_cycles({old: 10}), charted(NOW))} == {QUARTER, TWO_HOURS, EIGHT_HOURS}


@given(nows, st.sampled_from(sorted(CHARTED)))
def test_short_spans_are_deleted_by_whole_days(now: datetime, span: int) -> None:
    """No chart needs them any more; deleting daily keeps most idle minutes free of pruning."""
    before = chart_cutoff(now, span)

    assert now - CHARTED[span] - DAY < before <= now - CHARTED[span]
    assert (
        before
        == chart_cutoff(before + CHARTED[span], span)
        == chart_cutoff(before + CHARTED[span] + DAY * 0.999, span)
    )
