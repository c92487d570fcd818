"""What the totals say of long jobs, and how those that came back are found and taken first."""

from datetime import timedelta

from mayfly.clock import milliseconds
from mayfly.db.database import Database
from mayfly.queue.count import MAX_RELEASED_READ, first_released
from mayfly.queue.outcome import DEFERRED, Settlement
from mayfly.queue.settle import settle
from mayfly.stats.durations import TypeDurations
from mayfly.stats.histograms import Count
from mayfly.stats.totals import MAX_RECENT, read_usual, write_totals
from tests.database.factories import claim_ids, claim_jobs, make_settler
from tests.factories import get_row, insert_row, insert_rows, insert_runs

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def usual(database: Database) -> TypeDurations:
    return database.read(lambda connection: read_usual(connection, database.clock.now()))


def come_back(database: Database, lane: str = "default", *types: str) -> int | None:
    now = database.clock.now()
    return database.read(lambda connection: first_released(connection, lane, types or ("noop",), now))


def test_the_cycles_of_a_day_are_added_up(database: Database) -> None:
    """Whatever their outcome; what is older says nothing."""
    insert_runs(database, "render", 10, 15)
    insert_runs(database, "render", 38, 15, outcome="failed", age=23 * HOUR)
    insert_runs(database, "render", 100, 500, age=25 * HOUR)
    insert_runs(database, "thumb", 0.2, 500)
    insert_runs(database, "render", 4, 20, lane="mail")

    assert usual(database).seconds == {"default": {"render": 40}, "mail": {"render": 4}}


def test_runners_that_have_not_been_added_up_count_too(database: Database) -> None:
    """A cycle that was killed leaves the figures of each of them."""
    cycle_id = milliseconds(database.clock.now())
    for number in range(2):
        counted = {("default", "render", "done"): Count(10, {10_000: 10})}
        database.run(
            lambda connection, n=number, c=counted: write_totals(connection, cycle_id, f"worker-{n}", c)  # type: ignore[misc]
        )

    assert usual(database).seconds == {"default": {"render": 10}}


def test_no_more_than_the_last_rows_are_read(database: Database) -> None:
    """A fleet with many types has a shorter memory, and no slower cycles."""
    insert_runs(database, "render", 10, age=2 * HOUR)
    cycle_id = milliseconds(database.clock.now() - HOUR)
    crowd = {("default", f"type {number:04}", "done"): Count(1, {1: 1}) for number in range(MAX_RECENT - 1)}
    database.run(lambda connection: write_totals(connection, cycle_id, "", crowd))
    before = usual(database).seconds

    insert_runs(database, "thumb", 0.1, age=MINUTE)

    assert (before, usual(database).seconds) == ({"default": {"render": 10}}, {})


def test_a_deferred_job_is_as_it_was_and_counted(database: Database) -> None:
    """Pending, unspent, due as before: the front of its lane. The totals tell where."""
    job_id = insert_row(database)
    before = get_row(database, job_id)
    [job] = claim_jobs(database)

    settle(database, make_settler(cycle_id=milliseconds(database.clock.now())), [Settlement(job, DEFERRED)], {})

    row = get_row(database, job_id)
    assert (row.status, row.attempts, row.run_at, row.started_at) == ("pending", 0, before.run_at, None)
    assert (row.claims, row.interruptions, row.worker_id) == (1, 0, None)
    assert usual(database).deferred == {"default"}


def test_the_oldest_that_came_back_is_found(database: Database) -> None:
    """Of these types and this lane, due, whatever its priority; not who has spent an attempt for each claim."""
    now = database.clock.now()
    insert_row(database, claims=1, attempts=1, run_at=now - 3 * HOUR)
    insert_row(database, claims=1, run_at=now - 3 * HOUR, lane="mail")
    insert_row(database, claims=1, run_at=now - 3 * HOUR, type="other")
    insert_row(database, claims=1, run_at=now + HOUR)
    insert_row(database, claims=1, run_at=now - HOUR, priority=0)
    oldest = insert_row(database, claims=3, attempts=1, run_at=now - 2 * HOUR, priority=2)

    assert come_back(database) == oldest
    assert come_back(database, "default", "unheard of") is None


def test_the_look_for_it_ends_after_a_thousand(database: Database) -> None:
    """A lane of a million is not read through."""
    insert_rows(database, MAX_RELEASED_READ)
    insert_row(database, claims=1)

    assert come_back(database) is None


def test_a_runner_begins_with_the_job_that_it_was_told(database: Database) -> None:
    """Alone, before higher priorities; if it is gone by then, as always."""
    [*others, last] = [*insert_rows(database, 2, priority=0), insert_row(database, priority=2)]

    assert claim_ids(database, begins_with=last) == [last]
    assert claim_ids(database, begins_with=last) == others


def test_a_job_that_is_not_due_is_not_begun_with(database: Database) -> None:
    """It may have been put off since it was found."""
    job_id = insert_row(database, run_at=database.clock.now() + HOUR)

    assert claim_ids(database, begins_with=job_id) == []
