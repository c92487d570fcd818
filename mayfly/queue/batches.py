"""Batches: the jobs of one group, and a callback for when the last of them has ended.

Nobody counts them: a batch is over when its group has no live job left, and whoever settles one looks, after his
commit. Of two who settle the last two at the same time, at least one sees that.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import NamedTuple

from mayfly import json_text
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.queue.count import IS_OPEN, KnownLiveJobs, finished, finished_batches
from mayfly.queue.insert import insert_job, unpacked
from mayfly.schema.tables import CANCELLED, DEAD, DONE

KEYS_PER_STATEMENT = 500
COLUMNS = ("batch_key", "on_complete", "created_at", "sealed_at")

TAKEN = "SELECT created_at FROM mayfly_batches WHERE batch_key = :key"
OURS = f"{TAKEN} AND created_at = :now AND completed_at IS NULL"
UNSEALED = "sealed_at IS NULL AND completed_at IS NULL"
FILLING = f"SELECT batch_key FROM mayfly_batches WHERE batch_key = :key AND {UNSEALED}"
OPEN = "SELECT batch_key FROM mayfly_batches WHERE batch_key = :key AND completed_at IS NULL"
SEAL = f"UPDATE mayfly_batches SET sealed_at = :now WHERE batch_key = :key AND {UNSEALED}"
SEALED_SO = f"{TAKEN} AND sealed_at = :now"
ABANDON = (
    "UPDATE mayfly_batches SET abandoned_at = :now, completed_at = :now"
    " WHERE batch_key = :key AND completed_at IS NULL"
)
COMPLETE = f"UPDATE mayfly_batches SET completed_at = :now WHERE batch_key = :key AND {IS_OPEN}"
CALLBACK = "SELECT on_complete FROM mayfly_batches WHERE batch_key = :key"
COMPLETED_SINCE = (
    "SELECT COUNT(*) FROM mayfly_batches WHERE completed_at >= :since AND abandoned_at IS NULL"
)  # fmt: skip


class NewBatch(NamedTuple):
    key: str
    on_complete: str | None  # JSON: see Later
    created_at: datetime


class Completed(NamedTuple):
    """A batch that is over: how its jobs ended, and the type of its callback."""

    key: str
    done: int
    dead: int
    cancelled: int
    callback: str | None


def is_taken(connection: Connection, key: str) -> bool:
    return connection.execute(TAKEN, {"key": key}).first() is not None


def open_batch(connection: Connection, new: NewBatch, sealed: bool = False) -> bool:
    """False if there is one of this name. Not so if it is ours, from a try whose COMMIT was not answered."""
    row = dict(zip(COLUMNS, (*new, new.created_at if sealed else None), strict=True))
    inserting = connection.dialect.insert_missing("mayfly_batches", COLUMNS[:1], COLUMNS)
    if connection.execute(inserting, row).rowcount:
        return True
    return connection.execute(OURS, {"key": new.key, "now": new.created_at}).first() is not None


def is_being_filled(connection: Connection, key: str) -> bool:
    return connection.execute(FILLING, {"key": key}).first() is not None


def is_open(connection: Connection, key: str) -> bool:
    """Neither complete nor abandoned."""
    return connection.execute(OPEN, {"key": key}).first() is not None


def seal(connection: Connection, key: str, now: datetime) -> bool:
    """From here on only its own jobs add to it. False if it was sealed or abandoned by somebody else."""
    if connection.execute(SEAL, {"key": key, "now": now}).rowcount:
        return True
    return connection.execute(SEALED_SO, {"key": key, "now": now}).first() is not None  # the COMMIT was not answered


def abandon(connection: Connection, key: str, now: datetime) -> None:
    """It is over, and never complete."""
    connection.execute(ABANDON, {"key": key, "now": now})


def complete(database: Database, keys: Iterable[str], witnesses: KnownLiveJobs) -> tuple[Completed, ...]:
    """Those of these groups that are batches and are over, each by exactly one who looks."""
    wanted = sorted(set(keys))
    ended = database.read(lambda connection: finished(connection, _sealed(connection, wanted), witnesses))
    now = database.clock.now()
    found = [database.run(partial(_complete, key=key, now=now)) for key in ended]
    return tuple(each for each in found if each is not None)


def complete_all(database: Database) -> tuple[Completed, ...]:
    """Whoever settled a last job and was killed before he looked is made up for."""
    return complete(database, database.read(lambda connection: finished_batches(connection)), {})


def completed_since(connection: Connection, since: datetime) -> int:
    return int(connection.execute(COMPLETED_SINCE, {"since": since}).scalar())


def _sealed(connection: Connection, keys: Sequence[str]) -> list[str]:
    """Those that are batches at all, and whose last job may have been seen."""
    found: list[str] = []
    for start in range(0, len(keys), KEYS_PER_STATEMENT):
        names = {f"key_{number}": key for number, key in enumerate(keys[start : start + KEYS_PER_STATEMENT])}
        listed = ", ".join(f":{name}" for name in names)
        asking = f"SELECT batch_key FROM mayfly_batches WHERE batch_key IN ({listed}) AND {IS_OPEN}"
        found += [key for (key,) in connection.execute(asking, names).all()]
    return found


def _complete(connection: Connection, key: str, now: datetime) -> Completed | None:
    """None if somebody else was first: the callback is inserted by the one who changed the row."""
    if connection.execute(COMPLETE, {"key": key, "now": now}).rowcount != 1:
        return None
    counted = dict(connection.execute(count_statement(), {"key": key}).all())
    done, dead, cancelled = (counted.get(status, 0) for status in (DONE, DEAD, CANCELLED))
    kept = connection.execute(CALLBACK, {"key": key}).scalar()
    if kept is None:
        return Completed(key, done, dead, cancelled, None)
    callback = unpacked(json_text.decode(kept)).with_field("batch", report(key, done, dead, cancelled))
    insert_job(connection, callback.due_from(now))
    return Completed(key, done, dead, cancelled, callback.job.type)


def report(key: str, done: int = 0, dead: int = 0, cancelled: int = 0) -> dict[str, str | int]:
    """What a callback's payload has under `batch`."""
    return {"batch": key, "done": done, "dead": dead, "cancelled": cancelled}


@cache
def count_statement() -> str:
    return "SELECT status, COUNT(*) FROM mayfly_jobs WHERE group_key = :key GROUP BY status"


LONG_FILLING = timedelta(hours=1)  # who fills a batch for longer has probably died over it


def seal_batch(database: Database, key: str) -> bool:
    """All of its jobs may have ended by now, or there is none. False if it is not being filled."""
    now = database.clock.now()
    is_sealed = database.run(lambda connection: seal(connection, key, now))
    if is_sealed:
        complete(database, [key], {})
    return is_sealed
