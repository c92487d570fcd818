"""Handlers that choose the outcome of their job, and handlers that write in its transaction."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly import Cancel, Dead, Job, Retry, Snooze, chain, enqueue, enqueue_many, handler, step
from tests.process.sample_handlers.lazy_sqlalchemy import text

if TYPE_CHECKING:
    from sqlalchemy import Connection

AN_HOUR = 3600


@handler("answer")
def answer(_job: Job) -> dict[str, int]:
    return {"answer": 42}


@handler("snooze")
def snooze(_job: Job) -> None:
    raise Snooze(after=AN_HOUR)


@handler("cancel")
def cancel(_job: Job) -> None:
    raise Cancel("no longer wanted")


@handler("give_up")
def give_up(job: Job) -> None:
    raise Dead(job.payload.get("reason", "no such customer"))


@handler("retry_later")
def retry_later(_job: Job) -> None:
    raise Retry("the other side is busy", after=AN_HOUR)


@handler("always_fail", backoff_base=0.001)
def always_fail(job: Job) -> None:
    """Fails on every attempt, with a short backoff."""
    raise RuntimeError(f"failed at attempt {job.attempt}")


@handler("printer")
def printer(_job: Job) -> None:
    print("printed by a handler")


@handler("enqueue_child")
def enqueue_child(job: Job) -> None:
    """On the runner's own connection."""
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)


@handler("enqueue_in_two_lanes")
def enqueue_in_two_lanes(job: Job) -> None:
    enqueue("noop", lane="default")
    chain(step("noop", lane=job.lane), step("noop", lane=job.lane))


@handler("enqueue_until_third", backoff_base=0.001)
def enqueue_until_third(job: Job) -> None:
    """Enqueues two jobs and fails, until its third attempt."""
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)
    enqueue_many([{"type": "noop", "group_key": f"child of {job.id}", "delay": AN_HOUR}])
    if job.attempt < 3:
        raise RuntimeError(f"failed at attempt {job.attempt}")


def insert_row(connection: "Connection", job: Job) -> None:
    connection.execute(text("INSERT INTO test_rows (job_id) VALUES (:id)"), {"id": job.id})


@handler("insert_and_enqueue")
def insert_and_enqueue(job: Job) -> dict[str, int]:
    """A row, a job and a result, all in the job's transaction."""
    with job.transaction() as connection:
        insert_row(connection, job)
        enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)
    return {"inserted": job.id}


@handler("insert_then_fail")
def insert_then_fail(job: Job) -> None:
    with job.transaction() as connection:
        insert_row(connection, job)
        enqueue("noop", group_key=f"child of {job.id}")
        raise RuntimeError("failed within the block")


@handler("insert_then_fail_later")
def insert_then_fail_later(job: Job) -> None:
    with job.transaction() as connection:
        insert_row(connection, job)
    raise RuntimeError("failed after the block")


@handler("insert_then_snooze")
def insert_then_snooze(job: Job) -> None:
    with job.transaction() as connection:
        insert_row(connection, job)
    raise Snooze(after=AN_HOUR)


@handler("insert_then_bad_sql")
def insert_then_bad_sql(job: Job) -> None:
    """Fails with a database error after the block has ended."""
    with job.transaction() as connection:
        insert_row(connection, job)
    connection.execute(text("SELECT 1 FROM no_such_table"))


@handler("insert_twice")
def insert_twice(job: Job) -> None:
    """Swallows a database error and continues."""
    from sqlalchemy.exc import DBAPIError

    with job.transaction() as connection:
        insert_row(connection, job)
        try:
            insert_row(connection, job)
        except DBAPIError:
            return


@handler("insert_and_commit")
def insert_and_commit(job: Job) -> None:
    """Commits the transaction itself, which it must not do."""
    with job.transaction() as connection:
        insert_row(connection, job)
        connection.commit()


@handler("insert_orphan")
def insert_orphan(job: Job) -> None:
    """Violates a constraint that is checked at COMMIT."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_child (parent_id) VALUES (:id)"), {"id": job.id})


@handler("gated")
def gated(_job: Job) -> None:
    """Signals that it runs, and runs until the gate opens."""
    home = Path(os.environ["MAYFLY_HOME"])
    (home / "reached").touch()
    while not (home / "go").exists():
        time.sleep(0.01)


@handler("ack_each", ack="each")
def ack_each(_job: Job) -> None:
    """Its outcome is committed before the next job starts."""


@handler("leak")
def leak(job: Job) -> None:
    """Fails with its payload among the parameters of a statement."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO no_such_table (card) VALUES (:card)"), job.payload)


@handler("forge")
def forge(_job: Job) -> None:
    """The text of its error looks like more than one log line."""
    raise RuntimeError("first\n\x1b[31m\n2026-01-01T00:00:00.000Z [DISPATCHER] Dispatch Summary:")


@handler("gated_then_fail")
def gated_then_fail(job: Job) -> None:
    gated(job)
    raise RuntimeError("failed after the gate")
