"""Claims of a single job without a transaction."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from mayfly.db.database import Database
from mayfly.job import Job
from mayfly.queue.claim import jobs_from
from mayfly.queue.count import due_jobs
from mayfly.queue.single_claim import claim_single
from mayfly.schema.tables import HIGH, LOW, NORMAL
from tests.database.factories import claim_ids, claim_jobs, make_claimant, make_claims, run_sql, servers_only
from tests.database.lossy_proxy import proxied
from tests.factories import get_row, insert_row, insert_rows


def claim_alone(database: Database, job_id: int, worker_id: str = "worker-1") -> Job | None:
    claimant = make_claimant(database, worker_id)
    claimed = claim_single(database, claimant, job_id, database.clock.now())
    if claimed is None:
        return None
    [job] = jobs_from(claimed, claimant.lane)
    return job


def due(database: Database) -> tuple[list[int], int | None]:
    """The priorities that have due jobs, and the only job."""
    found = database.read(lambda connection: due_jobs(connection, "default", database.clock.now()))
    return list(found.first_at), found.single


def test_a_claim_writes_its_owner(database: Database) -> None:
    """Status, owner, lease and time; an attempt is used, and the fencing token grows."""
    job_id = insert_row(database, attempts=1, claims=7)
    claimant, now = make_claimant(database, "worker-7"), database.clock.now()

    claim_single(database, claimant, job_id, now)

    row = get_row(database, job_id)
    assert (row.status, row.worker_id, row.lease_until) == ("processing", "worker-7", claimant.lease_until)
    assert (row.locked_at, row.attempts, row.claims, row.started_at) == (now, 2, 8, None)


def test_a_claimed_job_is_the_same_as_that_of_a_transaction(database: Database) -> None:
    """Every field."""
    columns = {"type": "sleep", "payload": '{"seconds": 1}', "attempts": 2, "max_attempts": 9, "claims": 4,
               "interruptions": 1, "group_key": "g"}  # fmt: skip
    alone = insert_row(database, **columns)
    single = claim_alone(database, alone)
    run_sql(database, f"UPDATE mayfly_jobs SET status = 'pending', attempts = 2, claims = 4 WHERE id = {alone}")

    [job] = claim_jobs(database)

    assert single == job


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "processing"},
        {"lane": "mail"},
        {"suspect": 1},
        {"checkpoint": "1"},
        {"cancel_reason": "no"},
        {"releases": 1},
        {"unique_key": "source:posts:1", "unique_scope": "live"},
    ],
)
def test_a_job_that_needs_a_transaction_is_not_changed(database: Database, columns: dict[str, Any]) -> None:
    """Or one that is not pending in this lane."""
    job_id = insert_row(database, **columns)
    before = get_row(database, job_id)

    assert claim_alone(database, job_id) is None

    assert get_row(database, job_id) == before


@pytest.mark.parametrize("column", ["run_at", "expires_at", "unknown_since"])
def test_a_job_with_a_time_that_matters_is_not_changed(database: Database, column: str) -> None:
    """It is due later, may expire, or has waited for its handler."""
    job_id = insert_row(database, **{column: database.clock.now() + timedelta(hours=1)})

    assert claim_alone(database, job_id) is None

    assert get_row(database, job_id).status == "pending"


def test_a_job_is_claimed_once(database: Database, rival: Database) -> None:
    """The second claim finds it taken."""
    job_id = insert_row(database)

    first, second = claim_alone(database, job_id), claim_alone(rival, job_id, "worker-2")

    assert (first is not None, second) == (True, None)
    assert get_row(database, job_id).worker_id == "worker-1"


@servers_only
def test_a_job_that_is_locked_for_long_is_left_alone(database: Database, rival: Database) -> None:
    """Its lane continues with other jobs."""
    locked, other = insert_rows(database, 2)
    claims = make_claims(database)
    if not database.dialect.has_update_returning:  # its UPDATE waits for the lock
        database.read(lambda connection: connection.execute("SET SESSION innodb_lock_wait_timeout = 1"))
    with rival.transaction() as holding:
        holding.execute(text("SELECT id FROM mayfly_jobs WHERE id = :id FOR UPDATE"), {"id": locked})

        assert claim_alone(database, locked) is None
        assert claims.has_due()
        claimed = [job.id for job in claims.next()]

    assert claimed == [other]
    assert get_row(database, locked).status == "pending"


@servers_only
def test_a_job_is_claimed_though_the_reply_was_lost(migrated_url: str, database: Database) -> None:
    """The repeated statement finds it taken, by this runner itself."""
    job_id = insert_row(database)
    with proxied(migrated_url) as (proxy, url):
        remote = Database(url)
        remote.connect()
        proxy.lose_next(b"UPDATE mayfly_jobs")

        job = claim_alone(remote, job_id)
        remote.close()

    row = get_row(database, job_id)
    assert proxy.lost == 1
    assert job is not None
    assert (job.attempt, job.claims) == (row.attempts, row.claims) == (1, 1)


def test_the_only_due_job_is_found(database: Database) -> None:
    """Of any priority; jobs that are due later do not count."""
    job_id = insert_row(database, priority=LOW)
    insert_row(database, run_at=database.clock.now() + timedelta(hours=1))

    assert due(database) == ([LOW], job_id)


def test_one_of_several_jobs_is_not_claimed_alone(database: Database) -> None:
    """One transaction for all of them costs less."""
    insert_rows(database, 2, priority=NORMAL)
    assert due(database) == ([NORMAL], None)

    insert_row(database, priority=HIGH)
    assert due(database) == ([HIGH, NORMAL], None)


def test_a_job_with_a_unique_key_is_not_claimed_alone(database: Database) -> None:
    """An application may be replacing it in a long transaction, for whose lock some databases would wait."""
    insert_row(database, unique_key="k", unique_scope="live")

    assert due(database) == ([NORMAL], None)


def test_a_runner_claims_the_only_job_that_it_found(database: Database) -> None:
    """And what it could not claim alone, with the next transaction."""
    claims = make_claims(database)
    first = insert_row(database)
    assert claims.has_due()
    assert [job.id for job in claims.next()] == [first]

    suspect = insert_row(database, suspect=1)
    assert claims.has_due()
    assert [job.id for job in claims.next()] == [suspect]
    assert claim_ids(database) == []


def test_a_job_is_claimed_where_an_update_returns_no_rows(
    database: Database, rival: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claimed job is selected afterwards; a claim that came too late finds nothing."""
    monkeypatch.setattr(type(database.dialect), "has_update_returning", False)
    job_id = insert_row(database, attempts=2, claims=4)

    job, late = claim_alone(database, job_id), claim_alone(rival, job_id, "worker-2")

    assert job is not None
    assert (job.id, job.attempt, job.claims, late) == (job_id, 3, 5, None)
