"""job.write(): committed at once, whatever becomes of the job."""

from collections.abc import Iterator

import pytest

from mayfly import Job, enqueue, handler
from mayfly.db.database import Database
from mayfly.errors import RefusedInTransaction
from mayfly.testing import drain, using_database
from tests.factories import get_row, insert_row

MARK = "UPDATE mayfly_jobs SET group_key = 'marked' WHERE id = :id"


@pytest.fixture(autouse=True)
def _fresh(migrated_url: str) -> Iterator[None]:
    with using_database(migrated_url):
        yield


def test_what_is_written_stays_when_the_job_fails(database: Database, rival: Database) -> None:
    """And others see it before the handler goes on."""
    target = insert_row(database, type="target", status="done")
    seen = []

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        job.write(lambda connection: connection.execute(MARK, {"id": target}))
        seen.append(get_row(rival, target).group_key)
        raise ConnectionError("away")

    enqueue("write")
    drained = drain(raises=False)

    assert (drained.outcomes, seen) == ({"dead": 1}, ["marked"])
    assert get_row(database, target).group_key == "marked"


def test_inside_a_transaction_it_would_not_be_at_once() -> None:
    """So it is refused."""

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        with job.transaction():
            job.write(lambda connection: connection.execute("SELECT 1"))

    enqueue("write")

    with pytest.raises(RefusedInTransaction, match=r"^job\.write"):
        drain()


def test_a_job_can_be_part_of_it(database: Database) -> None:
    """It is there with the rest, before the handler ends, or not at all."""

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        job.write(lambda connection: enqueue("child", connection=connection))
        job.write(_enqueue_and_fail)

    def _enqueue_and_fail(connection: object) -> None:
        enqueue("other", connection=connection)
        raise ConnectionError("away")

    @handler("child")
    def child(_job: Job) -> None: ...

    enqueue("write")
    drained = drain(raises=False)

    assert [(run.job.type, run.kind) for run in drained.runs] == [("write", "dead"), ("child", "done")]
