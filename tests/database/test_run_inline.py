"""run_inline() on a test's database: what the handler does there is done, and there is no job of its own."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from mayfly import Job, Retry, enqueue, handler
from mayfly.engine import Database
from mayfly.testing import Run, assert_enqueued, enqueued_jobs, run_inline, using_database
from tests.factories import get_row, insert_row


@pytest.fixture(autouse=True)
def _fresh(migrated_url: str) -> Iterator[None]:
    with using_database(migrated_url):
        yield


@pytest.fixture
def target(database: Database) -> int:
    """A row that the handler `write` marks in its job's transaction, and then ends as its payload says."""
    target = insert_row(database, type="target", status="done")

    @handler("write")
    def write(job: Job) -> None:
        with job.transaction() as connection:
            mark = text("UPDATE mayfly_jobs SET group_key = 'marked' WHERE id = :id")
            connection.execute(mark, {"id": target})
            enqueue("noop")
        if job.payload["ends"] == "error":
            raise ConnectionError("away")
        if job.payload["ends"] == "retry":
            raise Retry("busy")
        if job.payload["ends"] == "commit":
            connection.commit()  # breaks the transaction that is not its own

    return target


def run_write(ends: str) -> Run:
    return run_inline("write", {"ends": ends}, raises=False)


def test_a_transaction_is_committed_when_the_handler_returns(database: Database, target: int) -> None:
    """With the jobs that were enqueued in it; there is no row to be settled with it."""
    run = run_write("well")

    assert (run.kind, get_row(database, target).group_key) == ("done", "marked")
    assert [job.type for job in enqueued_jobs()] == ["target", "noop"]


@pytest.mark.parametrize("ends", ["error", "retry"])
def test_a_transaction_is_undone_when_it_does_not(database: Database, target: int, ends: str) -> None:
    """Whatever the handler raises; the database is free for the next."""
    run = run_write(ends)

    assert (run.kind, get_row(database, target).group_key) == ("failed", None)
    assert_enqueued("noop", count=0)
    assert run_write("well").kind == "done"


def test_a_transaction_that_the_handler_broke_is_its_failure(target: int) -> None:
    """As in a runner, which finds that out when it settles the job."""
    run = run_write("commit")

    assert run.kind == "failed"
    assert "closed transaction" in str(run.error)


def test_what_a_handler_enqueues_is_enqueued_when_it_is_done() -> None:
    """As by a runner: with the outcome, and not before it."""

    @handler("breed")
    def breed(job: Job) -> None:
        enqueue("noop", {"of": job.payload["ends"]})
        assert_enqueued("noop", count=0)
        if job.payload["ends"] == "badly":
            raise Retry("busy")

    kinds = [run_inline(breed, {"ends": ends}).kind for ends in ("badly", "well")]

    assert kinds == ["failed", "done"]
    assert_enqueued("noop", {"of": "well"}, count=1)
    assert_enqueued("noop", count=1)
