"""Interrupted jobs are found, and claimed first by a fresh runner."""

from datetime import timedelta

from mayfly.db.database import Database
from mayfly.queue.count import MAX_INTERRUPTED_READ, interrupted_jobs
from tests.database.factories import claim_ids
from tests.factories import insert_row, insert_rows

HOUR = timedelta(hours=1)


def find(database: Database, lane: str = "default", count: int = 1) -> list[int]:
    now = database.clock.now()
    return database.read(lambda connection: interrupted_jobs(connection, {lane: count}, now)).get(lane, [])


def test_the_oldest_interrupted_jobs_are_found(database: Database) -> None:
    """Due jobs of this lane in any priority; jobs released for other reasons are not."""
    now = database.clock.now()
    insert_row(database, claims=1, run_at=now - 3 * HOUR)
    insert_row(database, interruptions=1, run_at=now - 3 * HOUR, lane="mail")
    insert_row(database, interruptions=1, run_at=now + HOUR)
    later = insert_row(database, interruptions=1, run_at=now - HOUR, priority=0)
    oldest = insert_row(database, interruptions=2, run_at=now - 2 * HOUR, priority=2)

    assert find(database) == [oldest]
    assert find(database, count=3) == [oldest, later]
    assert find(database, "empty") == []


def test_no_more_than_a_thousand_are_read(database: Database) -> None:
    """A lane of a million jobs is not read completely."""
    insert_rows(database, MAX_INTERRUPTED_READ)
    insert_row(database, interruptions=1)

    assert find(database) == []


def test_a_runner_claims_its_assigned_job_first(database: Database) -> None:
    """Alone, before higher priorities; if it is gone, the claim is a usual one."""
    [*others, last] = [*insert_rows(database, 2, priority=0), insert_row(database, priority=2)]

    assert claim_ids(database, begins_with=last) == [last]
    assert claim_ids(database, begins_with=last) == others


def test_an_assigned_job_that_is_not_due_is_not_claimed(database: Database) -> None:
    """It may have been delayed since it was found."""
    job_id = insert_row(database, run_at=database.clock.now() + HOUR)

    assert claim_ids(database, begins_with=job_id) == []
