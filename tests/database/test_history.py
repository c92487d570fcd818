"""Figures over time: each job and cycle is in exactly one point, whichever host counts it."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from mayfly.admin.charts import PERIODS, ChartPoint, read_history, read_sparks
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.queue.prune import EIGHT_HOURS, MINUTE, QUARTER, TWO_HOURS, prune
from mayfly.stats.histograms import Count, Tally
from mayfly.stats.history import SETTLED, count_cycles
from mayfly.stats.totals import add_up_totals, write_totals
from tests.database.factories import in_threads, retention, run_sql
from tests.factories import NOON

NOW = NOON + timedelta(minutes=30)
DONE = ("mail", "send", "done")
ONE: Tally = {
    DONE: Count(3, {1: 3}, {100: 2, 5000: 1}),
    ("mail", "send", "timed out"): Count(1, {50_000: 1}, {200: 1}),
}


def test_a_job_is_in_its_point_as_soon_as_it_is_counted(database: Database) -> None:
    """While its runner works, and not twice when the cycle has added it up."""
    write(database, ago(minutes=5), ONE, "worker-1")
    before = points(database, "1h")
    add_up(database, ago(minutes=5))

    [point] = [each for each in points(database, "1h") if each.done]

    assert before == points(database, "1h")
    assert point.begins_at == NOW - timedelta(minutes=5)
    assert (point.done, point.failed, point.dead) == (3, 1, 0)
    assert (point.wait_p50_ms, point.wait_p95_ms) == (100, 5000)


@pytest.mark.parametrize(("period", "shown"), [("1h", 1), ("24h", 2), ("7d", 3), ("30d", 4)])
def test_each_period_goes_back_as_far_as_its_name(database: Database, period: str, shown: int) -> None:
    """Including pruned totals."""
    for age in (timedelta(minutes=50), timedelta(hours=23), timedelta(days=6), timedelta(days=29)):
        write(database, NOW - age, ONE, "worker-1")
        add_up(database, NOW - age)
    run_sql(database, "DELETE FROM mayfly_totals")

    assert sum(each.done for each in points(database, period)) == 3 * shown


def test_hosts_that_add_up_at_once_lose_nothing(database: Database, migrated_url: str) -> None:
    """In a minute without any figures yet."""
    hosts = [Database(migrated_url) for _ in range(4)]
    times = [ago(minutes=5) + timedelta(milliseconds=number) for number in range(len(hosts))]
    for at in times:
        write(database, at, ONE, "worker-1")

    in_threads([partial(add_up, host, at) for host, at in zip(hosts, times, strict=True)])

    for host in hosts:
        host.close()
    assert [each.done for each in points(database, "7d") if each.done] == [3 * len(hosts)]


@pytest.mark.parametrize("carried_over", [False, True])
def test_cycles_are_in_their_points(database: Database, carried_over: bool) -> None:
    """Before and after they are counted, when they can be pruned."""
    for minute, second, took in ((20, 1, 900), (20, 2, 1800), (21, 1, 70_000)):
        cycle(database, ago(minutes=minute, seconds=-second), "a", took)
    if carried_over:
        for _ in range(2):
            database.run(lambda connection: count_cycles(connection, NOW))
        run_sql(database, "DELETE FROM mayfly_cycles")

    found = [each for each in points(database, "1h") if each.cycles]

    assert [(each.cycles, each.cycle_p50_ms, each.cycle_p95_ms) for each in found] == [
        (1, 75_000, 75_000),
        (2, 1000, 2000),
    ]


def test_a_running_cycle_is_not_included(database: Database) -> None:
    """Its duration is unknown; a killed one never has a duration."""
    at = ago(minutes=20)
    database.run(lambda connection: open_cycle(connection, milliseconds(at), "a", at))
    database.run(lambda connection: count_cycles(connection, NOW + SETTLED))

    assert not any(each.cycles for each in points(database, "1h"))


def test_a_day_of_idle_cycles_is_counted_without_old_short_spans(database: Database) -> None:
    """Idle minutes leave the counting to the first busy one."""
    for hours in (20, 40):
        cycle(database, ago(hours=hours), "a", 50)

    database.run(lambda connection: count_cycles(connection, NOW))

    assert spans(database) == {(QUARTER, 1), (TWO_HOURS, 2), (EIGHT_HOURS, 2)}


def test_short_spans_are_pruned_when_no_chart_needs_them(database: Database) -> None:
    """By whole days; long spans are kept as long as cycles."""
    now = database.clock.now()
    for days in (0, 3, 100):
        at = now - timedelta(days=days)
        write(database, at, {DONE: Count(1)}, "worker-1")
        add_up(database, at)

    prune(database, retention())

    assert spans(database) == {(MINUTE, 1), (QUARTER, 1), (TWO_HOURS, 2), (EIGHT_HOURS, 2)}


def test_a_database_without_history_has_empty_points(database: Database) -> None:
    """The same number as always."""
    for name, period in PERIODS.items():
        history = database.read(partial(read_history, period=period, now=NOW))

        assert history.is_empty
        assert len(points(database, name)) == period.points


def test_a_sparkline_has_the_done_jobs_of_each_lane(database: Database) -> None:
    """In steps of two minutes, the newest last, for the last hour."""
    images = {("images", "resize", "done"): Count(4), ("images", "resize", "failed"): Count(9)}
    write(database, ago(minutes=0), ONE, "")
    write(database, ago(minutes=1), {("mail", "other", "done"): Count(5)}, "")
    write(database, ago(minutes=58), images, "worker-1")
    write(database, ago(minutes=70), ONE, "")

    found = database.read(lambda connection: read_sparks(connection, NOW))

    assert found == {"mail": (*[0] * 28, 5, 3), "images": (4, *[0] * 29)}


def points(database: Database, period: str) -> tuple[ChartPoint, ...]:
    return database.read(lambda connection: read_history(connection, PERIODS[period], NOW)).points


def ago(**age: float) -> datetime:
    return NOW - timedelta(**age)


def write(database: Database, at: datetime, tally: Tally, worker_id: str) -> None:
    database.run(lambda connection: write_totals(connection, milliseconds(at), worker_id, tally))


def add_up(database: Database, at: datetime) -> None:
    database.run(lambda connection: add_up_totals(connection, milliseconds(at), at))


def cycle(database: Database, at: datetime, host: str, took: int) -> None:
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), {"duration_ms": took}, at))


def spans(database: Database) -> set[tuple[int, int]]:
    """Each span in the table, and how often."""
    counting = "SELECT span, COUNT(DISTINCT begins) FROM mayfly_history GROUP BY span"
    return {(int(span), int(number)) for span, number in database.read(lambda c: c.execute(counting).all())}
