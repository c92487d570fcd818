"""job.transaction(): what a handler writes there and its job's outcome are one commit, or none."""

import pytest

from mayfly import json_text
from tests.process.installation import Installation

LEDGER = "CREATE TABLE test_ledger (job_id BIGINT PRIMARY KEY)"


@pytest.fixture
def ledger(installation: Installation) -> Installation:
    """An installation whose database also has a table of the application's."""
    installation.execute(LEDGER)
    return installation


@pytest.mark.every_database
def test_a_handlers_rows_commit_with_its_job(ledger: Installation) -> None:
    """The row, the job that was enqueued in the block, the result and `done` are there together."""
    job_id = ledger.enqueue("book_and_breed")[0]

    cycle = ledger.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = ledger.job(job_id)
    assert (job.status, json_text.decode(job.result)) == ("done", {"booked": job_id})
    assert ledger.rows("SELECT job_id FROM test_ledger") == [(job_id,)]
    assert children_of(ledger, job_id) == ["pending"]


@pytest.mark.every_database
def test_a_handlers_rows_go_with_its_failure(ledger: Installation) -> None:
    """However the handler ends, its rows go; only its job fails, and its batch mate is not harmed.

    What a handler has committed by itself is beyond recall: but its job is not `done`.
    """
    endings = {
        "book_then_fail": ("pending", 1, "RuntimeError: failed within the block"),
        "book_then_fail_later": ("pending", 1, "RuntimeError: failed after the block"),
        "book_then_snooze": ("pending", 0, None),
        "book_then_miss": ("pending", 1, "no_such_table"),
        "book_and_commit": ("pending", 1, "transaction is closed"),
        "booked": ("done", 1, None),
    }
    ids = {type_name: ledger.enqueue(type_name)[0] for type_name in endings}

    cycle = ledger.dispatch(BATCH_SIZE="10")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    for type_name, (status, attempts, reason) in endings.items():
        job = ledger.job(ids[type_name])
        assert (type_name, job.status, job.attempts) == (type_name, status, attempts)
        assert (reason or "") in (job.last_error or "")
    kept = {row.job_id for row in ledger.rows("SELECT job_id FROM test_ledger")}
    assert kept == {ids["book_and_commit"], ids["booked"]}
    assert children_of(ledger, ids["book_then_fail"]) == []


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_what_fails_at_commit_is_the_jobs_failure(ledger: Installation) -> None:
    """A deferred constraint, or an error the handler swallowed: PostgreSQL then commits nothing."""
    ledger.execute(
        "CREATE TABLE test_child (parent_id BIGINT REFERENCES test_ledger (job_id) DEFERRABLE INITIALLY DEFERRED)"
    )
    orphan, swallowed = ledger.enqueue("book_an_orphan")[0], ledger.enqueue("book_twice")[0]
    mate = ledger.enqueue("noop")[0]

    cycle = ledger.dispatch(MAX_WORKERS="1")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (ledger.job(orphan).status, ledger.job(orphan).attempts) == ("pending", 1)
    assert "foreign key" in ledger.job(orphan).last_error
    assert (ledger.job(swallowed).status, ledger.job(swallowed).attempts) == ("pending", 1)
    assert "transaction is aborted" in ledger.job(swallowed).last_error
    assert ledger.rows("SELECT job_id FROM test_ledger") == []
    assert ledger.job(mate).status == "done"


def children_of(installation: Installation, job_id: int) -> list[str]:
    found = installation.rows("SELECT status FROM mayfly_jobs WHERE group_key = :key", key=f"child of {job_id}")
    return [row.status for row in found]
