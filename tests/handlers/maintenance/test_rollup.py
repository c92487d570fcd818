"""Metric points are aggregated per minute, hour and day: each once, even if late, repeated or concurrent."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.maintenance.purge import ROWS_PER_COMMIT
from handlers.maintenance.rollup import MetricPoint, RollupKey, RollupSum, add_up, count_some
from mayfly import enqueue, utc_from_driver
from mayfly.testing import drain
from tests.handlers.rows import insert, opened, select
from tests.hypothesis_profiles import in_full

DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
FIGURES = "SELECT span, name, begins_at, points, total, lowest, highest FROM app_metric_rollups"


def point(hours: float, value: float, name: str = "visits") -> dict[str, Any]:
    return {"name": name, "measured_at": DAY + timedelta(hours=hours), "value": value}


def rolled_up(**payload: float) -> Any:
    enqueue("metric_rollup", payload)
    return drain().runs[-1].result


def figures(url: str) -> dict[tuple[str, str, float], Sequence[float]]:
    """By span, name and hours since the beginning of the day."""
    return {
        (span, name, (utc_from_driver(at) - DAY) / timedelta(hours=1)): tuple(rest)
        for span, name, at, *rest in select(url, FIGURES)
    }


def test_points_are_added_up_once(platform: str) -> None:
    """A repeated job changes nothing."""
    insert(platform, "app_metric_points", point(10, 2.5), point(10.01, 4), point(11.5, -1), point(11.5, 8, "mails"))

    results = [rolled_up(), rolled_up()]

    found = figures(platform)
    assert results == [{"points": 4}, {"points": 0}]
    assert {key: each for key, each in found.items() if key[0] != "minute"} == {
        ("hour", "visits", 10): (2, 6.5, 2.5, 4.0),
        ("hour", "visits", 11): (1, -1.0, -1.0, -1.0),
        ("hour", "mails", 11): (1, 8.0, 8.0, 8.0),
        ("day", "visits", 0): (3, 5.5, -1.0, 4.0),
        ("day", "mails", 0): (1, 8.0, 8.0, 8.0),
    }
    assert [each for key, each in found.items() if key[0] == "minute" and key[1] == "mails"] == [(1, 8.0, 8.0, 8.0)]


@pytest.mark.every_database
def test_late_points_change_completed_rollups(platform: str) -> None:
    """Even if their points and minutes were deleted meanwhile. On every database."""
    insert(platform, "app_metric_points", point(10, 2), point(10.5, 4))
    rolled_up(point_days=1, minute_days=1)
    emptied = select(platform, "SELECT COUNT(*) FROM app_metric_points")
    insert(platform, "app_metric_points", point(10.25, 100))

    rolled_up(point_days=1, minute_days=1)

    assert emptied == [(0,)]
    assert figures(platform) == {
        ("hour", "visits", 10): (3, 106.0, 2.0, 100.0),
        ("day", "visits", 0): (3, 106.0, 2.0, 100.0),
    }


def test_points_are_deleted_after_they_were_counted(platform: str) -> None:
    """By age, and not before."""
    insert(platform, "app_metric_points", point(-24 * 30, 1), point(10, 1))

    rolled_up(point_days=7, minute_days=30)

    assert select(platform, "SELECT counted, value FROM app_metric_points") == [(1, 1.0)]
    assert figures(platform)["day", "visits", -24 * 30] == (1, 1.0, 1.0, 1.0)


@pytest.mark.every_database
def test_minutes_are_deleted_by_their_age(platform: str) -> None:
    """Hours and days stay. On every database."""
    insert(platform, "app_metric_points", point(10, 2), point(10.5, 4), point(14, 1))
    rolled_up(minute_days=30)
    before = figures(platform)

    rolled_up(minute_days=1)

    assert len([key for key in before if key[0] == "minute"]) == 3
    assert figures(platform) == {key: each for key, each in before.items() if key[0] != "minute"}


@pytest.mark.every_database
def test_two_hosts_count_nothing_twice(platform: str) -> None:
    """Each with connections of its own, over the same points. On every database."""
    total = 2 * ROWS_PER_COMMIT + 7
    insert(platform, "app_metric_points", *(point(number % 48, number, f"n{number % 3}") for number in range(total)))
    barrier = Barrier(2)

    def host(_number: int) -> int:
        with opened(platform) as database:
            database.connect()
            barrier.wait(60)
            counted = 0
            while step := database.run_sqlalchemy(lambda connection: count_some(connection, DAY)):
                counted += step
            return counted

    with ThreadPoolExecutor(2) as hosts:
        counted = list(hosts.map(host, range(2)))
    rolled_up()  # points that one host had locked when the other queried

    found = figures(platform)
    for span in ("minute", "hour", "day"):
        of_span = [each for key, each in found.items() if key[0] == span]
        assert (sum(each[0] for each in of_span), sum(each[1] for each in of_span)) == (total, sum(range(total)))
    assert sum(counted) == total


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_many_points_are_counted_in_slices(platform: str) -> None:
    """1,000 per commit; the next slice continues."""
    insert(platform, "app_metric_points", *(point(1, 1) for _ in range(ROWS_PER_COMMIT + 1)))
    enqueue("metric_rollup")

    drained = drain(slice_after=1)

    assert drained.outcomes["done"] == 1
    assert drained.outcomes["sliced"] >= 2
    assert drained.runs[-1].result == {"points": ROWS_PER_COMMIT + 1}
    assert figures(platform)["day", "visits", 0] == (ROWS_PER_COMMIT + 1, ROWS_PER_COMMIT + 1.0, 1.0, 1.0)


POINTS = st.builds(
    MetricPoint,
    st.sampled_from("ab"),
    st.integers(0, 2 * 86_400_000).map(lambda milliseconds: DAY + timedelta(milliseconds=milliseconds)),
    st.integers(-1000, 1000).map(float),
)


@in_full(50)
@given(st.lists(POINTS, min_size=1))
def test_each_span_has_all_points(points: list[MetricPoint]) -> None:
    """In any order, minutes, hours and days have the same totals."""
    sums = add_up(points, DAY)

    for span in ("minute", "hour", "day"):
        of_span = [each for key, each in sums.items() if key.span == span]
        assert sum(each.points for each in of_span) == len(points)
        assert sum(each.total for each in of_span) == sum(each.value for each in points)
        assert min(each.lowest for each in of_span) == min(each.value for each in points)
        assert max(each.highest for each in of_span) == max(each.value for each in points)
    assert sums == add_up(reversed(points), DAY)


def test_nan_and_infinity_are_ignored() -> None:
    """One of them would spoil the sum of a day."""
    points = [MetricPoint("a", DAY, value) for value in (1.0, float("nan"), float("inf"))]

    assert add_up(points, DAY + timedelta(days=1)) == {
        RollupKey("hour", "a", DAY): RollupSum(1, 1.0, 1.0, 1.0),
        RollupKey("day", "a", DAY): RollupSum(1, 1.0, 1.0, 1.0),
    }
