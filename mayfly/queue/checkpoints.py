"""Write how far a running job is, if it is still ours: its checkpoint, and its progress."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import CancelRequested, HandlerEnded, LeaseGone
from mayfly.job import MOVED, Job, cancel_request
from mayfly.queue.followups import write_buffered

_OWNER = "id = :id AND worker_id = :owner AND claims = :token"


def store_checkpoint(database: Database, worker_id: str, job: Job, text: str, moved: bool) -> None:
    """In one statement, which also finds out whether somebody wants the job to end: then nothing is written.

    What its handler has enqueued so far is written with it: the next run goes on behind this, and does it no more.
    """
    values = {**_whose(worker_id, job), "checkpoint": text}
    statement, held = checkpoint_statement(moved), job.held

    def write(connection: Connection) -> int:
        changed = connection.execute(statement, values).rowcount
        if changed and held:
            write_buffered(connection, held, database.clock.now())
        return changed

    if (database.run(write, twice=False) if held else database.once(write)) == 0:
        raise _reason(database, worker_id, job)
    job.held = None


def store_progress(database: Database, worker_id: str, job: Job, text: str) -> None:
    values = {**_whose(worker_id, job), "progress": text}
    if database.once(lambda connection: connection.execute(progress_statement(), values).rowcount) == 0:
        raise LeaseGone


@cache
def checkpoint_statement(moved: bool) -> str:
    """Who gets further is no suspect: an import of hours must not die of the third crash in a week.

    Its crashes are forgiven, not forgotten: MySQL sets columns from left to right, so they are added first.
    """
    forgiven = ", forgiven = forgiven + crashes"
    cleared = "".join(f", {each} = 0" for each in ("crashes", "interruptions", "suspect"))
    changes = "checkpoint = :checkpoint" + (f", stalled = {MOVED}{forgiven}{cleared}" if moved else "")
    fence = f"{_OWNER} AND status = 'processing'"
    return f"UPDATE mayfly_jobs SET {changes} WHERE {fence} AND cancel_reason IS NULL"


@cache
def progress_statement() -> str:
    """Whatever its status: the last word of a handler that committed its `done` itself comes after that."""
    return f"UPDATE mayfly_jobs SET progress = :progress WHERE {_OWNER}"


def _reason(database: Database, worker_id: str, job: Job) -> HandlerEnded:
    wish = database.read(lambda connection: cancel_request(connection, job.id, worker_id, job.claims))
    return LeaseGone() if wish is None else CancelRequested(wish)


def _whose(worker_id: str, job: Job) -> Mapping[str, Any]:
    return {"id": job.id, "owner": worker_id, "token": job.claims}
