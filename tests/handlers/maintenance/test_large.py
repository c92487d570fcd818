"""Maintenance of large tables: minutes, not hours, and nothing lost."""

import pytest

from handlers.maintenance.purge import ROWS_PER_COMMIT
from mayfly import enqueue
from mayfly.testing import drain
from tests.handlers.maintenance.test_purging import session
from tests.handlers.maintenance.test_rollup import figures, point
from tests.handlers.rows import insert, select

MANY = 200_000
PART = 20_000  # rows of one insert


def measured(number: int) -> dict[str, object]:
    hours = 48 * number / MANY
    return point(hours % 24 if number % 20 == 7 else hours, number, f"n{number * 7 % 20}")


@pytest.mark.slow
def test_many_points_are_added_up(platform: str) -> None:
    """20 metrics over two days, every 20th point a day late."""
    for begin in range(0, MANY, PART):
        insert(platform, "app_metric_points", *map(measured, range(begin, begin + PART)))
    enqueue("metric_rollup")

    drained = drain()

    assert drained.runs[0].result == {"points": MANY}
    for span in ("minute", "hour", "day"):
        of_span = [each for key, each in figures(platform).items() if key[0] == span]
        assert (sum(each[0] for each in of_span), sum(each[1] for each in of_span)) == (MANY, sum(range(MANY)))
    assert {key[2] for key in figures(platform) if key[0] == "day"} == {0, 24}


@pytest.mark.slow
def test_many_sessions_are_purged(platform: str) -> None:
    """1,000 per commit; used ones stay."""
    for begin in range(0, MANY, PART):
        insert(platform, "app_sessions", *(session(number, 40) for number in range(begin, begin + PART)))
    insert(platform, "app_sessions", session(-1, 1))
    enqueue("purge_sessions")

    drained = drain(slice_after=50)

    assert drained.outcomes == {"sliced": MANY // ROWS_PER_COMMIT // 50, "done": 1}
    assert drained.runs[-1].result == {"sessions": MANY}
    assert select(platform, "SELECT COUNT(*) FROM app_sessions") == [(1,)]
