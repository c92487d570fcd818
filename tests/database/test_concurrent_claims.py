"""Many runners at one table: each job is claimed once, nobody waits, and no deadlock reaches a caller."""

from collections import Counter
from contextlib import ExitStack
from functools import partial

from sqlalchemy import text

from mayfly.clock import pause
from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.queue.claim import claim, jobs_from
from mayfly.queue.count import has_due
from mayfly.queue.outcome import DONE, Settlement
from mayfly.queue.settle import settle
from mayfly.schema.metadata import jobs
from runner.claims import Claim
from tests.database.factories import (
    claim_jobs,
    in_threads,
    make_claimant,
    make_claims,
    make_settler,
    rows_of,
    servers_only,
)
from tests.factories import insert_rows

CROWD = 2000
RUNNERS = 8
MANY_CLAIMS = 8  # about 0.4 s


@servers_only
def test_a_claim_takes_what_others_have_not_locked(database: Database, rival: Database) -> None:
    """Rows locked by another transaction are skipped, and nobody waits for them."""
    rows = insert_rows(database, 5)
    with rival.transaction() as holding:
        for job_id in (rows[0], rows[2]):
            holding.execute(text("SELECT id FROM mayfly_jobs WHERE id = :id FOR UPDATE"), {"id": job_id})

        claimed = [job.id for job in claim_jobs(database, 5)]  # returns while they are still locked

    assert claimed == [rows[1], rows[3], rows[4]]
    assert database.repeats == 0


@servers_only
def test_a_claim_locks_no_row_that_it_does_not_take(database: Database, rival: Database) -> None:
    """While one claim of ten is not yet committed, another gets the next ten: none of them was locked."""
    rows = insert_rows(database, 25)
    now = database.clock.now()
    claimant = make_claimant(rival, "worker-2")
    with rival.transaction():
        first = jobs_from(rival.run(lambda joined: claim(joined, claimant, 10, now)), "default")

        second = claim_jobs(database, 10)

    assert [job.id for job in first] == rows[:10]
    assert [job.id for job in second] == rows[10:20]


@servers_only
def test_a_claim_is_repeated_while_others_hold_all_due_jobs(database: Database, rival: Database) -> None:
    """The job that a rival locked and did not take is claimed, even if the rival's transaction took long."""
    rows = insert_rows(database, 1)
    claims_made = []

    with ExitStack() as holding:

        def count_claims(claim: Claim) -> Claim:
            def counted(size: int) -> list[Job]:
                batch = claim(size)
                claims_made.append(len(batch))
                if len(claims_made) == MANY_CLAIMS:
                    holding.close()
                return batch

            return counted

        locked = holding.enter_context(rival.transaction())
        locked.execute(text("SELECT id FROM mayfly_jobs WHERE id = :id FOR UPDATE"), {"id": rows[0]})

        batch = make_claims(database, middleware=[count_claims]).next()

    assert [job.id for job in batch] == rows
    assert claims_made == [0] * MANY_CLAIMS + [1]


def test_eight_runners_share_a_lane(migrated_url: str, database: Database) -> None:
    """2,000 jobs, claimed and settled at once from eight sides: each exactly once, and no error anywhere."""
    rows = [insert_rows(database, CROWD // 4, priority=priority) for priority in (2, 0, 1, 1)]

    claimed = in_threads([partial(drain, migrated_url, f"worker-{number}") for number in range(RUNNERS)])

    times = Counter(job_id for each in claimed for job_id in each)
    assert times == Counter(job_id for part in rows for job_id in part)
    assert {(row.status, row.claims, row.attempts) for row in rows_of(database, jobs)} == {("done", 1, 1)}


def test_nobody_takes_a_full_lane_for_empty(migrated_url: str, database: Database) -> None:
    """When all runners are through, nothing is left: an empty answer was never believed too early."""
    insert_rows(database, 120)

    in_threads([partial(drain, migrated_url, f"worker-{number}", size=1) for number in range(RUNNERS)])

    assert {row.status for row in rows_of(database, jobs)} == {"done"}


def drain(url: str, worker_id: str, size: int = 20) -> list[int]:
    """A runner's loop, in one thread: claim, settle, until a look confirms that nothing is due."""
    database = Database(url)
    ids: list[int] = []
    while True:
        batch = claim_jobs(database, size, worker_id)
        if not batch and not is_due(database):
            break
        if not batch:
            pause(0.002)
            continue
        ids += [job.id for job in batch]
        settle(database, make_settler(worker_id), [Settlement(job, DONE, 0) for job in batch], {})
    database.close()
    return ids


def is_due(database: Database) -> bool:
    now = database.clock.now()
    return database.read(lambda connection: has_due(connection, "default", now))
