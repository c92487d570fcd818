"""job.read() and job.write(): both give a SQLAlchemy connection; a write is committed independently of the job."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from mayfly import Job, enqueue, handler
from mayfly.db.database import Database
from mayfly.errors import DatabaseFailed, RefusedInTransaction, TransactionClosed
from mayfly.testing import drain, using_database
from tests.factories import get_row, insert_row

MARK = text("UPDATE mayfly_jobs SET group_key = 'marked' WHERE id = :id")


@pytest.fixture(autouse=True)
def _fresh(migrated_url: str) -> Iterator[None]:
    with using_database(migrated_url):
        yield


def test_a_write_stays_when_the_job_fails(database: Database, rival: Database) -> None:
    """Other sessions see it before the handler continues."""
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


def test_a_write_inside_a_transaction_is_refused() -> None:
    """It would be committed with the job, not before."""

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        with job.transaction():
            job.write(lambda connection: connection.execute(text("SELECT 1")))

    enqueue("write")

    with pytest.raises(RefusedInTransaction, match=r"^job\.write"):
        drain()


def test_a_job_can_be_part_of_a_write(database: Database) -> None:
    """It is committed with the rest, before the handler ends, or not at all."""

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        job.write(lambda connection: enqueue("child", connection=connection))
        job.write(_enqueue_and_fail)

    def _enqueue_and_fail(connection: Connection) -> None:
        enqueue("other", connection=connection)
        raise ConnectionError("away")

    @handler("child")
    def child(_job: Job) -> None: ...

    enqueue("write")
    drained = drain(raises=False)

    assert [(run.job.type, run.kind) for run in drained.runs] == [("write", "dead"), ("child", "done")]


@pytest.mark.parametrize("engine_name", ["mariadb", "postgres"], indirect=True)
def test_a_write_is_repeated_after_a_conflict() -> None:
    """The whole function is called again, and nothing of the first call is stored. (SQLite has one writer.)"""
    calls: list[int] = []

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        job.write(_conflict_once)

    def _conflict_once(connection: Connection) -> None:
        calls.append(len(calls))
        enqueue("child", connection=connection)
        if len(calls) == 1:
            [taken] = connection.execute(text("SELECT id FROM mayfly_jobs WHERE type = 'child'")).one()
            connection.execute(
                text("INSERT INTO mayfly_jobs (id, type, payload) VALUES (:id, 'child', '{}')"), {"id": taken}
            )

    @handler("child")
    def child(_job: Job) -> None: ...

    enqueue("write")
    drained = drain()

    assert calls == [0, 1]
    assert drained.outcomes == {"done": 2}


def test_a_handler_may_catch_the_errors_of_sqlalchemy(database: Database) -> None:
    """In a savepoint: the rest of the write is committed."""
    target = insert_row(database, type="target", status="done")

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        job.write(_insert_a_duplicate)

    def _insert_a_duplicate(connection: Connection) -> None:
        connection.execute(MARK, {"id": target})
        duplicate = text("INSERT INTO mayfly_jobs (id, type, payload) VALUES (:id, 'target', '{}')")
        with pytest.raises(IntegrityError), connection.begin_nested():
            connection.execute(duplicate, {"id": target})

    enqueue("write")
    drain()

    assert get_row(database, target).group_key == "marked"


def test_a_failing_statement_is_explained() -> None:
    """With the sentence that every database error has, and without the values."""

    @handler("write", max_attempts=1)
    def write(job: Job) -> None:
        job.write(
            lambda connection: connection.execute(text("UPDATE no_such_table SET secret = :value"), {"value": "k3y"})
        )

    enqueue("write")
    [run] = drain(raises=False).runs

    assert "There is no table" in str(run.reason)
    assert "k3y" not in str(run.reason)


def test_a_statement_that_no_sentence_explains_names_the_database() -> None:
    """A syntax error, for one."""

    @handler("read", max_attempts=1)
    def read(job: Job) -> None:
        job.read(lambda connection: connection.execute(text("SELECT FROM WHERE")))

    enqueue("read")

    with pytest.raises(DatabaseFailed):
        drain()


def test_a_read_inside_a_transaction_sees_what_it_wrote(database: Database) -> None:
    """It uses the transaction's own connection."""
    target = insert_row(database, type="target", status="done")
    seen = []

    @handler("read", max_attempts=1)
    def read(job: Job) -> None:
        with job.transaction() as connection:
            connection.execute(MARK, {"id": target})
            asked = text("SELECT group_key FROM mayfly_jobs WHERE id = :id")
            seen.append(job.read(lambda inside: inside.execute(asked, {"id": target}).scalar()))

    enqueue("read")
    drain()

    assert seen == ["marked"]


def test_a_read_after_the_transaction_was_closed_is_refused() -> None:
    """A handler that commits by itself has ended the transaction of its job."""

    @handler("read", max_attempts=1)
    def read(job: Job) -> None:
        with job.transaction() as connection:
            connection.commit()
            job.read(lambda inside: inside.execute(text("SELECT 1")))

    enqueue("read")

    with pytest.raises(TransactionClosed):
        drain()


def test_the_time_of_the_job_can_be_a_parameter(database: Database) -> None:
    """Of any statement, without a type: it is bound as the tables store times."""
    target = insert_row(database, type="target", status="done", run_at=database.clock.now())
    found = []

    @handler("read", max_attempts=1)
    def read(job: Job) -> None:
        asked = text("SELECT COUNT(*) FROM mayfly_jobs WHERE id = :id AND run_at <= :now")
        found.append(job.read(lambda connection: connection.execute(asked, {"id": target, "now": job.now}).scalar()))
        change = text("UPDATE mayfly_jobs SET run_at = :now WHERE id = :id")
        job.write(lambda connection: connection.execute(change, {"id": target, "now": job.now}))
        found.append(job.read(lambda connection: connection.execute(asked, {"id": target, "now": job.now}).scalar()))

    enqueue("read")
    drain()

    assert found == [1, 1]
