"""Paused lanes and types: their rows, and the jobs that a pause postpones."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.db.dialects import utc_from_driver
from mayfly.queue.count import find_lanes
from mayfly.schema.tables import PRIORITIES, WAITING_LENGTH

LANE, TYPE = "lane", "type"
PAUSED_FOR = timedelta(minutes=5)  # if a pause has no end; `resume` makes its jobs due at once
ROWS_PER_SLICE = 1000

SELECT_PAUSES = "SELECT kind, name, paused_at, paused_until, paused_by, reason FROM mayfly_pauses"
DELETE_PAUSE = "DELETE FROM mayfly_pauses WHERE kind = :kind AND name = :name"

# With any reason: the pause may have got another one since.
POSTPONED = "type = :type AND waiting_for LIKE 'type % is paused%'"
SELECT_POSTPONED = (
    "SELECT id, run_at FROM mayfly_jobs WHERE lane = :lane AND status = 'pending'"
    f" AND priority = :priority AND run_at >= :after AND {POSTPONED} ORDER BY run_at, id LIMIT :size"
)
RESUME_JOBS = (
    "UPDATE mayfly_jobs SET run_at = :now, waiting_for = NULL"
    f" WHERE {{ids of id}} AND status = 'pending' AND {POSTPONED}"
)


class Pause(NamedTuple):
    kind: str  # LANE or TYPE
    name: str
    paused_at: datetime
    paused_until: datetime | None = None
    paused_by: str | None = None
    reason: str | None = None

    def holds(self, now: datetime) -> bool:
        return self.paused_until is None or now < self.paused_until

    @property
    def words(self) -> str:
        return f"paused: {self.reason}" if self.reason else "paused"

    @property
    def waiting_for(self) -> str:
        """Written to the jobs that it postpones."""
        return f"{self.kind} {self.name} is {self.words}"[:WAITING_LENGTH]

    def postponed_until(self, now: datetime) -> datetime:
        return self.paused_until or now + PAUSED_FOR


class Pauses(NamedTuple):
    """All pauses in effect at one time, by name."""

    lanes: Mapping[str, Pause]
    types: Mapping[str, Pause]


def load_pauses(connection: Connection, now: datetime) -> Pauses:
    """Reads all rows at once: there are few, if any."""
    known = [each for row in connection.execute(SELECT_PAUSES).all() if (each := _pause(*row)).holds(now)]
    return Pauses(*({each.name: each for each in known if each.kind == kind} for kind in (LANE, TYPE)))


def pause(connection: Connection, new: Pause) -> bool:
    """Replaces an earlier pause: True if there was one."""
    was_paused = _is_paused(connection, new.kind, new.name, new.paused_at)
    row = new._asdict()
    connection.execute(connection.dialect.upsert("mayfly_pauses", ("kind", "name"), row), row)
    return was_paused


def resume(connection: Connection, kind: str, name: str, now: datetime) -> bool:
    """True if it was paused."""
    was_paused = _is_paused(connection, kind, name, now)
    connection.execute(DELETE_PAUSE, {"kind": kind, "name": name})
    return was_paused


def _is_paused(connection: Connection, kind: str, name: str, now: datetime) -> bool:
    found = load_pauses(connection, now)
    return name in (found.lanes if kind == LANE else found.types)


def resume_jobs(database: Database, type_name: str, lanes: Iterable[str] | None = None) -> int:
    """Make jobs due that a pause of this type has postponed; returns their number. One commit per slice."""
    if lanes is None:
        lanes = database.read(lambda connection: find_lanes(connection))
    return sum(_resume_slice(database, type_name, lane, each) for lane in lanes for each in PRIORITIES)


def _resume_slice(database: Database, type_name: str, lane: str, priority: int) -> int:
    """Along the claim index; each slice starts where the last one ended. Skipped jobs wait for something else."""
    now = database.clock.now()
    values = {"lane": lane, "priority": priority, "type": type_name, "after": now, "size": ROWS_PER_SLICE}
    moved = 0
    while found := database.read(lambda connection: connection.execute(SELECT_POSTPONED, values).all()):
        moved += database.once(partial(_make_due, type_name, [job_id for job_id, _run_at in found], now))
        values["after"] = utc_from_driver(found[-1][1])
    return moved


def _make_due(type_name: str, ids: Sequence[int], now: datetime, connection: Connection) -> int:
    return connection.execute(RESUME_JOBS, {"now": now, "type": type_name}, ids).rowcount


def _pause(kind: str, name: str, paused_at: datetime, paused_until: datetime | None, *rest: str | None) -> Pause:
    return Pause(kind, name, utc_from_driver(paused_at), paused_until and utc_from_driver(paused_until), *rest)
