"""run_inline() with a test database: the handler's writes are committed, without a row of its own job."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from mayfly import Job, Retry, enqueue, handler
from mayfly.db.database import Database
from mayfly.testing import Run, assert_enqueued, enqueued_jobs, run_inline, using_database
from tests.factories import get_row, insert_row


@pytest.fixture(autouse=True)
def _fresh(migrated_url: str) -> Iterator[None]:
    with using_database(migrated_url):
        yield


@pytest.fixture
def target(database: Database) -> int:
    """A row that the handler `write` marks in its job's transaction; the payload decides how it ends."""
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
    """With the jobs enqueued in it; there is no row to settle."""
    run = run_write("well")

    assert (run.kind, get_row(database, target).group_key) == ("done", "marked")
    assert [job.type for job in enqueued_jobs()] == ["target", "noop"]


@pytest.mark.parametrize("ends", ["error", "retry"])
def test_a_transaction_is_rolled_back_when_the_handler_raises(database: Database, target: int, ends: str) -> None:
    """Any exception; the database is usable afterwards."""
    run = run_write(ends)

    assert (run.kind, get_row(database, target).group_key) == ("failed", None)
    assert_enqueued("noop", count=0)
    assert run_write("well").kind == "done"


def test_a_transaction_broken_by_the_handler_is_a_failure(target: int) -> None:
    """A runner detects it when it settles the job."""
    run = run_write("commit")

    assert run.kind == "failed"
    assert "transaction is closed" in str(run.error)


def test_jobs_are_enqueued_when_the_handler_is_done() -> None:
    """As in a runner: with the outcome, not before it."""

    @handler("breed")
    def enqueue_child(job: Job) -> None:
        enqueue("noop", {"of": job.payload["ends"]})
        assert_enqueued("noop", count=0)
        if job.payload["ends"] == "badly":
            raise Retry("busy")

    kinds = [run_inline(enqueue_child, {"ends": ends}).kind for ends in ("badly", "well")]

    assert kinds == ["failed", "done"]
    assert_enqueued("noop", {"of": "well"}, count=1)
    assert_enqueued("noop", count=1)


@pytest.fixture
def _import() -> None:
    @handler("import")
    def import_(job: Job) -> int:
        for row in range(job.state or 0, job.payload["rows"]):
            job.progress(row, job.payload["rows"])
            job.checkpoint(row + 1)
        return int(job.state or 0)

    @handler("import_async")
    async def import_async(job: Job) -> int:
        return int(import_(job))


@pytest.mark.parametrize("type_name", ["import", "import_async"])
@pytest.mark.usefixtures("_import")
def test_a_checkpoint_is_kept_by_the_run(type_name: str) -> None:
    """There is no row; the test chooses where the handler starts and where it is ended."""
    whole = run_inline(type_name, {"rows": 5})
    first = run_inline(type_name, {"rows": 5}, slice_after=2)
    second = run_inline(type_name, {"rows": 5}, state=first.state)

    assert (whole.kind, whole.result, whole.state) == ("done", 5, 5)
    assert (first.kind, first.state) == ("sliced", 2)
    assert (second.kind, second.result) == ("done", 5)


@pytest.mark.usefixtures("_import")
def test_a_checkpoint_enqueues_buffered_jobs() -> None:
    """The next run continues after it and does not enqueue them again; later jobs are buffered as usual."""

    @handler("breed_in_steps")
    def enqueue_in_steps(job: Job) -> None:
        for number in range(job.state or 0, 4):
            enqueue("noop", {"number": number})
            if number % 2:
                job.checkpoint(number + 1)

    first = run_inline(enqueue_in_steps, slice_after=1)
    second = run_inline(enqueue_in_steps, state=first.state)

    assert [(each.type, each.payload["number"]) for run in (first, second) for each in run.enqueued] == [
        ("noop", number) for number in range(4)
    ]
    assert_enqueued("noop", count=4)
