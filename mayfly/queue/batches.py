"""Batches: the jobs of one group, and a callback that is enqueued when the last of them has ended.

There is no counter: a batch is complete when its group has no live job. Every process checks this after it has
committed the outcome of a job of the group. If two settle the last two jobs concurrently, at least one notices.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from mayfly import json_text
from mayfly.db.connection import Connection, numbered_parameters, placeholders
from mayfly.db.database import Database
from mayfly.queue.count import IS_SEALED, KnownLiveJobs, finished_batches, without_live_jobs
from mayfly.queue.insert import FutureJob, insert_job
from mayfly.schema.tables import CANCELLED, DEAD, DONE, SCHEDULED

KEYS_PER_STATEMENT = 500
NOT_BATCHES = ("chain:", SCHEDULED)  # prefixes of groups
MAX_FILLING = timedelta(hours=1)  # a process that adds jobs for longer has probably died
COLUMNS = ("batch_key", "on_complete", "created_at", "sealed_at")

UNSEALED = "sealed_at IS NULL AND completed_at IS NULL"
SELECT_BATCH = "SELECT created_at FROM mayfly_batches WHERE batch_key = :key"
SELECT_CREATED_NOW = f"{SELECT_BATCH} AND created_at = :now AND completed_at IS NULL"
SELECT_SEALED_NOW = f"{SELECT_BATCH} AND sealed_at = :now"
SELECT_UNSEALED = f"SELECT batch_key FROM mayfly_batches WHERE batch_key = :key AND {UNSEALED}"
SELECT_OPEN = "SELECT batch_key FROM mayfly_batches WHERE batch_key = :key AND completed_at IS NULL"
SELECT_CALLBACK = "SELECT on_complete FROM mayfly_batches WHERE batch_key = :key"
SEAL = f"UPDATE mayfly_batches SET sealed_at = :now WHERE batch_key = :key AND {UNSEALED}"
ABANDON = (
    "UPDATE mayfly_batches SET abandoned_at = :now, completed_at = :now"
    " WHERE batch_key = :key AND completed_at IS NULL"
)
COMPLETE = f"UPDATE mayfly_batches SET completed_at = :now WHERE batch_key = :key AND {IS_SEALED}"
COUNT_COMPLETED_SINCE = (
    "SELECT COUNT(*) FROM mayfly_batches WHERE completed_at >= :since AND abandoned_at IS NULL"
)  # fmt: skip
COUNT_BY_STATUS = "SELECT status, COUNT(*) FROM mayfly_jobs WHERE group_key = :key GROUP BY status"


class NewBatch(NamedTuple):
    key: str
    on_complete: str | None  # JSON of a FutureJob
    created_at: datetime


class CompletedBatch(NamedTuple):
    """How its jobs ended, and the type of its callback."""

    key: str
    done: int
    dead: int
    cancelled: int
    callback: str | None


def is_taken(connection: Connection, key: str) -> bool:
    return connection.execute(SELECT_BATCH, {"key": key}).first() is not None


def is_being_filled(connection: Connection, key: str) -> bool:
    return connection.execute(SELECT_UNSEALED, {"key": key}).first() is not None


def is_open(connection: Connection, key: str) -> bool:
    """Neither complete nor abandoned."""
    return connection.execute(SELECT_OPEN, {"key": key}).first() is not None


def open_batch(connection: Connection, new: NewBatch, sealed: bool = False) -> bool:
    """False if the name is taken. True if a first try has inserted the row and the reply to its COMMIT was lost."""
    row = dict(zip(COLUMNS, (*new, new.created_at if sealed else None), strict=True))
    statement = connection.dialect.insert_missing("mayfly_batches", COLUMNS[:1], COLUMNS)
    if connection.execute(statement, row).rowcount:
        return True
    return connection.execute(SELECT_CREATED_NOW, {"key": new.key, "now": new.created_at}).first() is not None


def seal_batch(database: Database, key: str) -> bool:
    """Seal the batch, and complete it if it has no live job. False if it was already sealed or completed."""
    now = database.clock.now()
    is_sealed = database.run(lambda connection: seal(connection, key, now))
    if is_sealed:
        complete(database, [key], {})
    return is_sealed


def seal(connection: Connection, key: str, now: datetime) -> bool:
    """From now on only jobs of the batch can add jobs. False if another process has sealed or abandoned it."""
    if connection.execute(SEAL, {"key": key, "now": now}).rowcount:
        return True
    # True if a first try sealed it and the reply to its COMMIT was lost.
    return connection.execute(SELECT_SEALED_NOW, {"key": key, "now": now}).first() is not None


def abandon(connection: Connection, key: str, now: datetime) -> None:
    """Complete it without its callback."""
    connection.execute(ABANDON, {"key": key, "now": now})


def complete(database: Database, keys: Iterable[str], known: KnownLiveJobs) -> tuple[CompletedBatch, ...]:
    """Complete those of these groups that are batches without live jobs. One process completes each batch."""
    candidates = sorted(set(keys))
    ended = database.read(lambda connection: without_live_jobs(connection, _sealed(connection, candidates), known))
    now = database.clock.now()
    found = [database.run(partial(_complete, key=key, now=now)) for key in ended]
    return tuple(each for each in found if each is not None)


def complete_all(database: Database) -> tuple[CompletedBatch, ...]:
    """Complete every finished batch, also if the process that settled its last job was killed before its check."""
    return complete(database, database.read(finished_batches), {})


def completed_since(connection: Connection, since: datetime) -> int:
    return int(connection.execute(COUNT_COMPLETED_SINCE, {"since": since}).scalar())


def report(key: str, done: int = 0, dead: int = 0, cancelled: int = 0) -> dict[str, str | int]:
    """The value of `batch` in the callback's payload."""
    return {"batch": key, "done": done, "dead": dead, "cancelled": cancelled}


def _sealed(connection: Connection, keys: Sequence[str]) -> list[str]:
    """The keys that belong to sealed batches."""
    found: list[str] = []
    for start in range(0, len(keys), KEYS_PER_STATEMENT):
        values = numbered_parameters(keys[start : start + KEYS_PER_STATEMENT])
        statement = (
            f"SELECT batch_key FROM mayfly_batches WHERE batch_key IN ({placeholders(values)}) AND {IS_SEALED}"
        )
        found += [key for (key,) in connection.execute(statement, values).all()]
    return found


def _complete(connection: Connection, key: str, now: datetime) -> CompletedBatch | None:
    """None if another process was first: the callback is inserted by the one that changed the row."""
    if connection.execute(COMPLETE, {"key": key, "now": now}).rowcount != 1:
        return None
    counted = dict(connection.execute(COUNT_BY_STATUS, {"key": key}).all())
    done, dead, cancelled = (counted.get(status, 0) for status in (DONE, DEAD, CANCELLED))
    stored = connection.execute(SELECT_CALLBACK, {"key": key}).scalar()
    if stored is None:
        return CompletedBatch(key, done, dead, cancelled, None)
    callback = FutureJob.from_dict(json_text.decode(stored)).starting_at(now)
    payload = {**json_text.decode(callback.payload), "batch": report(key, done, dead, cancelled)}
    insert_job(connection, callback._replace(payload=json_text.encode(payload)))
    return CompletedBatch(key, done, dead, cancelled, callback.type)
