"""job.transaction(): rows written by a handler and the outcome of its job are one commit, or none."""

import pytest

from mayfly import json_text
from tests.process.installation import Installation

LEDGER = "CREATE TABLE test_rows (job_id BIGINT PRIMARY KEY)"


@pytest.fixture
def with_table(installation: Installation) -> Installation:
    """An installation whose database also has a table of the application."""
    installation.execute(LEDGER)
    return installation


@pytest.mark.every_database
def test_rows_of_a_handler_commit_with_its_job(with_table: Installation) -> None:
    """The row, the enqueued job, the result and `done` are committed together."""
    job_id = with_table.enqueue("insert_and_enqueue")[0]

    cycle = with_table.dispatch()

    assert (cycle.returncode, cycle.stderr) == (0, "")
    job = with_table.job(job_id)
    assert (job.status, json_text.decode(job.result)) == ("done", {"inserted": job_id})
    assert with_table.rows("SELECT job_id FROM test_rows") == [(job_id,)]
    assert children_of(with_table, job_id) == ["pending"]


@pytest.mark.every_database
def test_rows_of_a_failed_handler_are_rolled_back(with_table: Installation) -> None:
    """For any kind of failure; only its job fails, and the other job of the batch is done.

    Rows that a handler has committed itself stay, but its job is not `done`.
    """
    endings = {
        "insert_then_fail": ("pending", 1, "RuntimeError: failed within the block"),
        "insert_then_fail_later": ("pending", 1, "RuntimeError: failed after the block"),
        "insert_then_snooze": ("pending", 0, None),
        "insert_then_bad_sql": ("pending", 1, "no_such_table"),
        "insert_and_commit": ("pending", 1, "transaction is closed"),
        "insert_row": ("done", 1, None),
    }
    ids = {type_name: with_table.enqueue(type_name)[0] for type_name in endings}

    cycle = with_table.dispatch(BATCH_SIZE="10")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    for type_name, (status, attempts, reason) in endings.items():
        job = with_table.job(ids[type_name])
        assert (type_name, job.status, job.attempts) == (type_name, status, attempts)
        assert (reason or "") in (job.last_error or "")
    kept = {row.job_id for row in with_table.rows("SELECT job_id FROM test_rows")}
    assert kept == {ids["insert_and_commit"], ids["insert_row"]}
    assert children_of(with_table, ids["insert_then_fail"]) == []


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
def test_an_error_at_commit_fails_the_job(with_table: Installation) -> None:
    """A deferred constraint, or an error the handler swallowed: PostgreSQL then commits nothing."""
    with_table.execute(
        "CREATE TABLE test_child (parent_id BIGINT REFERENCES test_rows (job_id) DEFERRABLE INITIALLY DEFERRED)"
    )
    orphan, swallowed = with_table.enqueue("insert_orphan")[0], with_table.enqueue("insert_twice")[0]
    other = with_table.enqueue("noop")[0]

    cycle = with_table.dispatch(MAX_WORKERS="1")

    assert (cycle.returncode, cycle.stderr) == (0, "")
    assert (with_table.job(orphan).status, with_table.job(orphan).attempts) == ("pending", 1)
    assert "foreign key" in with_table.job(orphan).last_error
    assert (with_table.job(swallowed).status, with_table.job(swallowed).attempts) == ("pending", 1)
    assert "transaction is aborted" in with_table.job(swallowed).last_error
    assert with_table.rows("SELECT job_id FROM test_rows") == []
    assert with_table.job(other).status == "done"


def children_of(installation: Installation, job_id: int) -> list[str]:
    found = installation.rows("SELECT status FROM mayfly_jobs WHERE group_key = :key", key=f"child of {job_id}")
    return [row.status for row in found]
