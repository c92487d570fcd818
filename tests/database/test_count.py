"""Counting what is due: lane by lane, to a cap, and never more than the answer needs."""

from datetime import timedelta

from sqlalchemy import insert

from mayfly.db.database import Database
from mayfly.queue.count import Due, count_due, find_lanes
from mayfly.schema.metadata import jobs
from mayfly.schema.tables import STATUSES
from tests.factories import insert_row, insert_rows
from tests.sqlalchemy_engines import run


def test_an_empty_table_has_no_lanes(database: Database) -> None:
    """Nothing to plan, and nothing to say."""
    assert counted(database) == []


def test_every_lane_is_counted_by_itself(database: Database) -> None:
    """In the order of their names, whatever the priority of their jobs."""
    insert_rows(database, 2, lane="mail", priority=0)
    insert_rows(database, 3, lane="mail", priority=2)
    insert_row(database, lane="images")

    assert counted(database) == [Due("images", 1, capped=False), Due("mail", 5, capped=False)]


def test_only_what_is_due_is_counted(database: Database) -> None:
    """Delayed jobs and those that are held or have ended are in the table, and no work."""
    for status in STATUSES:
        insert_row(database, status=status)
    insert_row(database, run_at=database.clock.now() + timedelta(minutes=1))

    assert counted(database) == [Due("default", 1, capped=False)]


def test_a_lane_without_due_jobs_is_still_known(database: Database) -> None:
    """Its rows are to be pruned, and its name is no misspelling."""
    insert_row(database, lane="quiet", status="done")

    assert counted(database) == [Due("quiet", 0, capped=False)]


def test_a_count_stops_at_the_lanes_cap(database: Database) -> None:
    """What lies beyond is said with a plus, and costs nothing."""
    insert_rows(database, 1002, lane="full")
    insert_rows(database, 1000, lane="just")

    full, just = counted(database)

    assert (str(full), str(just)) == ("1000+", "1000")


def test_the_cap_holds_over_all_priorities(database: Database) -> None:
    """Three priorities of four jobs are twelve, and more than five."""
    for priority in (0, 1, 2):
        insert_rows(database, 4, priority=priority)

    assert counted(database, cap=5) == [Due("default", 5, capped=True)]


def test_lanes_with_strange_names_are_found(database: Database) -> None:
    """Case, blanks, quotes and other alphabets: a lane is any text."""
    names = {"Mail", "mail", "a b", "it's", 'say "x"', "100%", "почта", "\U0001f9a5", "_", "~"}
    for name in names:
        insert_row(database, lane=name)

    found = database.read(lambda connection: find_lanes(connection))

    assert set(found) == names
    assert len(found) == len(names)


def test_many_lanes_are_counted(database: Database) -> None:
    """Hundreds, as of a lane for each customer: no statement grows beyond what a database takes."""
    due = database.clock.now() - timedelta(minutes=1)
    rows = [{"type": "noop", "payload": "{}", "run_at": due, "lane": f"customer-{number}"} for number in range(250)]
    run(database, lambda connection: connection.execute(insert(jobs), rows))

    assert [str(each) for each in counted(database)] == ["1"] * 250


def counted(database: Database, cap: int = 1000) -> list[Due]:
    now = database.clock.now()
    return database.read(lambda connection: count_due(connection, now, lambda _lane: cap))
