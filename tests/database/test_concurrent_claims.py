"""Concurrent claims: each job is claimed once, claims do not wait, and no deadlock reaches a caller."""

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

JOBS = 2000
RUNNERS = 8
MANY_CLAIMS = 8  # about 0.4 s


@servers_only
def test_a_claim_skips_locked_rows(database: Database, rival: Database) -> None:
    """It does not wait for them."""
    rows = insert_rows(database, 5)
    with rival.transaction() as holding:
        for job_id in (rows[0], rows[2]):
            holding.execute(text("SELECT id FROM mayfly_jobs WHERE id = :id FOR UPDATE"), {"id": job_id})

        claimed = [job.id for job in claim_jobs(database, 5)]  # returns while they are still locked

    assert claimed == [rows[1], rows[3], rows[4]]
    assert database.repeats == 0


@servers_only
def test_a_claim_locks_only_the_rows_it_takes(database: Database, rival: Database) -> None:
    """While a claim of ten is not committed, another gets the next ten."""
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
    """A job that was locked but not taken is claimed, even after a long transaction."""
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
    """2,000 jobs are claimed and settled exactly once, without an error."""
    rows = [insert_rows(database, JOBS // 4, priority=priority) for priority in (2, 0, 1, 1)]

    claimed = in_threads([partial(drain, migrated_url, f"worker-{number}") for number in range(RUNNERS)])

    times = Counter(job_id for each in claimed for job_id in each)
    assert times == Counter(job_id for part in rows for job_id in part)
    assert {(row.status, row.claims, row.attempts) for row in rows_of(database, jobs)} == {("done", 1, 1)}


def test_a_full_lane_is_never_mistaken_for_empty(migrated_url: str, database: Database) -> None:
    """When all runners have ended, no job is left."""
    insert_rows(database, 120)

    in_threads([partial(drain, migrated_url, f"worker-{number}", size=1) for number in range(RUNNERS)])

    assert {row.status for row in rows_of(database, jobs)} == {"done"}


def drain(url: str, worker_id: str, size: int = 20) -> list[int]:
    """The loop of a runner in one thread: claim and settle until no job is due."""
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
