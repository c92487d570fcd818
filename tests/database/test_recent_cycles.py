"""The last hour in the overview: missed minutes, overruns, and newly dead jobs."""

from datetime import datetime, timedelta
from functools import partial

from mayfly.admin.charts import list_newly_dead
from mayfly.admin.fleet import CyclesByMinute, CycleView, Gap, Regularity, list_minutes, read_regularity
from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.fleet.cycles import close_cycle, open_cycle
from mayfly.schema import metadata as tables
from mayfly.stats.histograms import Count
from mayfly.stats.totals import write_totals
from tests.database.factories import insert_table_row
from tests.factories import NOON, insert_row

MINUTE = timedelta(minutes=1)
NOW = NOON + timedelta(hours=2)


def test_a_missed_minute_stands_between_its_cycles(database: Database) -> None:
    """For each host, and until now."""
    for minute in (10, 9, 6, 5):
        cycle(database, minute, "a")
    for minute in range(10):
        cycle(database, minute, "b", late=timedelta(milliseconds=7))

    rows = list_all(database)

    assert [(each.host, each.missed_minutes) for each in rows if isinstance(each, Gap)] == [("a", 4), ("a", 2)]
    assert len([each for each in rows if isinstance(each, CycleView)]) == 14


def test_pages_contain_every_cycle_and_gap(database: Database) -> None:
    """Wherever a page ends, also directly before a gap."""
    for minute in (30, 29, 25, 24, 23, 10, 9, 3, 2):
        cycle(database, minute, "a")
        cycle(database, minute, "b", late=timedelta(milliseconds=7))
    cycle(database, 30, "rare", late=timedelta(milliseconds=14))

    whole = list_all(database)

    assert [each.missed_minutes for each in whole if isinstance(each, Gap)] == [1, 1, 5, 5, 12, 12, 3, 3, 29]
    for size in (1, 2, 3, 5):
        assert list_all(database, size) == whole


def test_regularity_is_that_of_each_host_in_the_last_hour(database: Database) -> None:
    """Minutes missing until now count; earlier cycles do not."""
    for minute in (90, 30, 29, 27, 4, 3):
        cycle(database, minute, "a", took=61_000 if minute == 29 else 900)
    cycle(database, 70, "gone")
    for minute in range(3):
        cycle(database, minute, "b", late=timedelta(milliseconds=7))

    found = database.read(lambda connection: read_regularity(connection, NOW))

    assert found == {"a": Regularity(missed=1 + 22 + 2, overruns=1), "b": Regularity()}


def test_newly_dead_jobs_are_counted_by_lane_and_type(database: Database) -> None:
    """The most first, with the newest error of each; older ones are not included."""
    died = {
        ("mail", "send", "dead"): Count(2),
        ("images", "resize", "dead"): Count(7),
        ("mail", "send", "done"): Count(9),
    }
    write(database, timedelta(minutes=5), died)
    write(database, timedelta(minutes=70), {("mail", "old", "dead"): Count(5)})
    for age in (9, 8):
        job_id = insert_row(database, lane="mail", type="send", status="dead", finished_at=NOW)
        attempt(database, job_id, f"ValueError: no {age}\n  in the third line", NOW - age * MINUTE)
    attempt(database, insert_row(database, lane="mail", type="send"), "will be tried again", NOW - MINUTE)

    images, mail = database.read(lambda connection: list_newly_dead(connection, NOW))

    assert (images.lane, images.type, images.jobs, images.error) == ("images", "resize", 7, None)
    assert (mail.lane, mail.type, mail.jobs, mail.error) == ("mail", "send", 2, "ValueError: no 8")
    assert (mail.newest_id, mail.died_at) == (job_id, NOW - 8 * MINUTE)


def test_without_dead_jobs_the_list_is_empty(database: Database) -> None:
    assert database.read(lambda connection: list_newly_dead(connection, NOW)) == []


def cycle(database: Database, minutes_ago: int, host: str, took: int = 900, late: timedelta = timedelta(0)) -> None:
    at = NOW - minutes_ago * MINUTE + late
    database.run(lambda connection: open_cycle(connection, milliseconds(at), host, at))
    database.run(lambda connection: close_cycle(connection, milliseconds(at), {"duration_ms": took}, at))


def list_all(database: Database, size: int = 60) -> list[CycleView | Gap]:
    rows: list[CycleView | Gap] = []
    page = CyclesByMinute((), None)
    while not rows or page.next is not None:
        page = database.read(partial(list_minutes, now=NOW, size=size, before=page.next))
        rows += page.rows
    return rows


def write(database: Database, age: timedelta, tally: dict[tuple[str, str, str], Count]) -> None:
    database.run(lambda connection: write_totals(connection, milliseconds(NOW - age), "", tally))


def attempt(database: Database, job_id: int, error: str, at: datetime) -> None:
    insert_table_row(
        database, tables.attempts, job_id=job_id, attempt=1, worker_id="worker-1", outcome="failed", error=error,
        fingerprint="f", finished_at=at,
    )  # fmt: skip
