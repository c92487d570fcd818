"""Batches: open and recently completed ones with their jobs per status; abandon one."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from mayfly.admin.actions import CANCEL, BulkResult, act
from mayfly.admin.audit import Actor
from mayfly.admin.filters import JobFilter
from mayfly.admin.jobs import MAX_COUNTED, count_group
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.batches import LONG_FILLING, UNSEALED, abandon
from mayfly.schema.tables import CANCELLED, DEAD, DONE, PENDING, PROCESSING

MAX_OPEN = 100
MAX_RECENT = 20

_COLUMNS = "batch_key, created_at, sealed_at, completed_at, abandoned_at"
OPEN = f"SELECT {_COLUMNS} FROM mayfly_batches WHERE completed_at IS NULL ORDER BY created_at LIMIT {MAX_OPEN}"
RECENT = (
    f"SELECT {_COLUMNS} FROM mayfly_batches WHERE completed_at IS NOT NULL"
    f" ORDER BY completed_at DESC LIMIT {MAX_RECENT}"
)
NEVER_SEALED = (
    f"SELECT batch_key, created_at FROM mayfly_batches WHERE {UNSEALED} AND created_at < :before"
    f" ORDER BY created_at LIMIT {MAX_OPEN}"
)


@dataclass(frozen=True)
class ListedBatch:
    batch: str
    state: str  # being filled, never sealed, open, complete, abandoned
    left: int
    done: int
    dead: int
    cancelled: int
    since: datetime
    completed_at: datetime | None
    is_capped: bool = False  # only the newest jobs were counted

    def facts(self) -> dict[str, Any]:
        ended = self.completed_at and self.completed_at.isoformat(timespec="seconds")
        return {**asdict(self), "since": self.since.isoformat(timespec="seconds"), "completed_at": ended}


def list_batches(connection: Connection, now: datetime) -> list[ListedBatch]:
    rows = [*connection.execute(OPEN).all(), *connection.execute(RECENT).all()]
    return [_listed_batch(connection, now, *row) for row in rows]


def never_sealed(connection: Connection, now: datetime) -> list[tuple[str, datetime]]:
    """Batches unsealed for so long that their producers have probably died, and since when."""
    found = connection.execute(NEVER_SEALED, {"before": now - LONG_FILLING}).all()
    return [(key, utc_from_driver(created_at)) for key, created_at in found]


def _listed_batch(connection: Connection, now: datetime, key: str, created_at: Any, *ends: Any) -> ListedBatch:
    counted = count_group(connection, key, MAX_COUNTED)
    completed_at, since = ends[1], utc_from_driver(created_at)
    return ListedBatch(
        batch=key,
        state=_state(now - since, *ends),
        left=counted.get(PENDING, 0) + counted.get(PROCESSING, 0),
        done=counted.get(DONE, 0),
        dead=counted.get(DEAD, 0),
        cancelled=counted.get(CANCELLED, 0),
        since=since,
        completed_at=completed_at and utc_from_driver(completed_at),
        is_capped=sum(counted.values()) > MAX_COUNTED,
    )


def _state(age: timedelta, sealed_at: Any, completed_at: Any, abandoned_at: Any) -> str:
    if abandoned_at:
        return "abandoned"
    if completed_at:
        return "complete"
    if sealed_at:
        return "open"
    return "never sealed" if age > LONG_FILLING else "being filled"


def abandon_batch(database: Database, key: str, reason: str, actor: Actor | None = None) -> BulkResult:
    """Mark it as never complete, then cancel its pending jobs. Can be repeated after a kill between the two."""
    now = database.clock.now()
    database.run(lambda connection: abandon(connection, key, now))
    pending = JobFilter(group_key=key, status=PENDING)
    return act(database, CANCEL, pending, actor, f"the batch {key} was abandoned: {reason}")
