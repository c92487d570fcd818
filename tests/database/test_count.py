"""Counting due jobs: per lane, up to a cap, without reading more than needed."""

from datetime import timedelta

from sqlalchemy import insert

from mayfly.db.database import Database
from mayfly.queue.count import Due, count_due, find_lanes, job_groups
from mayfly.schema.metadata import jobs
from mayfly.schema.tables import STATUSES
from tests.factories import insert_row, insert_rows
from tests.sqlalchemy_engines import run


def test_an_empty_table_has_no_lanes(database: Database) -> None:
    """So there is nothing to plan."""
    assert counted(database) == []


def test_every_lane_is_counted_separately(database: Database) -> None:
    """In order of their names, over all priorities."""
    insert_rows(database, 2, lane="mail", priority=0)
    insert_rows(database, 3, lane="mail", priority=2)
    insert_row(database, lane="images")

    assert counted(database) == [Due("images", 1, capped=False), Due("mail", 5, capped=False)]


def test_only_due_jobs_are_counted(database: Database) -> None:
    """Delayed, claimed and finished jobs are not."""
    for status in STATUSES:
        insert_row(database, status=status)
    insert_row(database, run_at=database.clock.now() + timedelta(minutes=1))

    assert counted(database) == [Due("default", 1, capped=False)]


def test_a_lane_without_due_jobs_is_still_listed(database: Database) -> None:
    """Its rows must be pruned, and its name is known."""
    insert_row(database, lane="quiet", status="done")

    assert counted(database) == [Due("quiet", 0, capped=False)]


def test_a_count_stops_at_the_cap_of_its_lane(database: Database) -> None:
    """A plus shows that there are more, and they are not read."""
    insert_rows(database, 1002, lane="full")
    insert_rows(database, 1000, lane="just")

    full, just = counted(database)

    assert (str(full), str(just)) == ("1000+", "1000")


def test_the_cap_applies_to_all_priorities_together(database: Database) -> None:
    """Three priorities of four jobs are twelve, and more than five."""
    for priority in (0, 1, 2):
        insert_rows(database, 4, priority=priority)

    assert counted(database, cap=5) == [Due("default", 5, capped=True)]


def test_lanes_with_unusual_names_are_found(database: Database) -> None:
    """Upper case, spaces, quotes and other alphabets: a lane is any text."""
    names = {"Mail", "mail", "a b", "it's", 'say "x"', "100%", "почта", "\U0001f9a5", "_", "~"}
    for name in names:
        insert_row(database, lane=name)

    found = database.read(lambda connection: find_lanes(connection))

    assert set(found) == names
    assert len(found) == len(names)


def test_many_lanes_are_counted(database: Database) -> None:
    """Hundreds, such as one per customer: no statement exceeds the limits of a database."""
    due = database.clock.now() - timedelta(minutes=1)
    rows = [{"type": "noop", "payload": "{}", "run_at": due, "lane": f"customer-{number}"} for number in range(250)]
    run(database, lambda connection: connection.execute(insert(jobs), rows))

    assert [str(each) for each in counted(database)] == ["1"] * 250


def test_a_lane_is_due_if_it_has_a_due_job_of_any_priority(database: Database) -> None:
    """Delayed, claimed and finished jobs do not count, however many there are beside it."""
    now = database.clock.now()
    for status in STATUSES:
        insert_row(database, lane="delayed", status=status, run_at=now + timedelta(minutes=1))
        if status != "pending":
            insert_row(database, lane="finished", status=status)
    insert_row(database, lane="due", run_at=now + timedelta(minutes=1))
    insert_row(database, lane="due", priority=2)

    groups = database.read(job_groups)

    assert {group.lane for group in groups if group.is_due(now)} == {"due"}


def counted(database: Database, cap: int = 1000) -> list[Due]:
    now = database.clock.now()
    return database.read(lambda connection: count_due(connection, now, lambda _lane: cap))
