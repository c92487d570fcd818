"""Handlers that say what should become of their job, and handlers that write in its transaction."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly import Cancel, Dead, Job, Retry, Snooze, enqueue, enqueue_many, handler
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
    raise Cancel("nobody wants it any more")


@handler("give_up")
def give_up(_job: Job) -> None:
    raise Dead("no such customer")


@handler("come_back")
def come_back(_job: Job) -> None:
    raise Retry("the other side is busy", after=AN_HOUR)


@handler("stumble", backoff_base=0.001)
def stumble(job: Job) -> None:
    """Fails for ever, and comes back at once."""
    raise RuntimeError(f"stumbled at attempt {job.attempt}")


@handler("printer")
def printer(_job: Job) -> None:
    print("printed by a handler")


@handler("breed")
def breed(job: Job) -> None:
    """Another job, through the runner's own connection."""
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)


@handler("breed_thrice", backoff_base=0.001)
def breed_thrice(job: Job) -> None:
    """Two children, and an error, until its third attempt."""
    enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)
    enqueue_many([{"type": "noop", "group_key": f"child of {job.id}", "delay": AN_HOUR}])
    if job.attempt < 3:
        raise RuntimeError(f"stumbled at attempt {job.attempt}")


def book(connection: "Connection", job: Job) -> None:
    connection.execute(text("INSERT INTO test_ledger (job_id) VALUES (:id)"), {"id": job.id})


@handler("book_and_breed")
def book_and_breed(job: Job) -> dict[str, int]:
    """A row, another job and a result, all in the job's transaction."""
    with job.transaction() as connection:
        book(connection, job)
        enqueue("noop", group_key=f"child of {job.id}", delay=AN_HOUR)
    return {"booked": job.id}


@handler("book_then_fail")
def book_then_fail(job: Job) -> None:
    with job.transaction() as connection:
        book(connection, job)
        enqueue("noop", group_key=f"child of {job.id}")
        raise RuntimeError("failed within the block")


@handler("book_then_fail_later")
def book_then_fail_later(job: Job) -> None:
    with job.transaction() as connection:
        book(connection, job)
    raise RuntimeError("failed after the block")


@handler("book_then_snooze")
def book_then_snooze(job: Job) -> None:
    with job.transaction() as connection:
        book(connection, job)
    raise Snooze(after=AN_HOUR)


@handler("book_then_miss")
def book_then_miss(job: Job) -> None:
    """An error of the database itself, once the block has ended well."""
    with job.transaction() as connection:
        book(connection, job)
    connection.execute(text("SELECT 1 FROM no_such_table"))


@handler("book_twice")
def book_twice(job: Job) -> None:
    """Swallows what the database said, and goes on as if nothing had happened."""
    from sqlalchemy.exc import DBAPIError

    with job.transaction() as connection:
        book(connection, job)
        try:
            book(connection, job)
        except DBAPIError:
            return


@handler("book_and_commit")
def book_and_commit(job: Job) -> None:
    """Ends the transaction by itself, which is not its to end."""
    with job.transaction() as connection:
        book(connection, job)
        connection.commit()


@handler("book_an_orphan")
def book_an_orphan(job: Job) -> None:
    """Breaks a constraint that is checked at COMMIT."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO test_child (parent_id) VALUES (:id)"), {"id": job.id})


@handler("latch")
def latch(_job: Job) -> None:
    """Says that it runs, and runs until it is told to go on."""
    home = Path(os.environ["MAYFLY_HOME"])
    (home / "reached").touch()
    while not (home / "go").exists():
        time.sleep(0.01)


@handler("leak")
def leak(job: Job) -> None:
    """Fails with its payload among the parameters of a statement."""
    with job.transaction() as connection:
        connection.execute(text("INSERT INTO no_such_table (card) VALUES (:card)"), job.payload)


@handler("forge")
def forge(_job: Job) -> None:
    """An error whose text pretends to be more than one line."""
    raise RuntimeError("first\n\x1b[31m\n2026-01-01T00:00:00.000Z [DISPATCHER] Dispatch Summary:")


@handler("latch_then_fail")
def latch_then_fail(job: Job) -> None:
    latch(job)
    raise RuntimeError("failed after the latch")
