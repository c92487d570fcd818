"""Queries without locks: lanes with jobs, due jobs, capped counts, finished batches.

Fast enough for every minute and every claim. No heavy imports: the idle check uses this module.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from mayfly.db.connection import Connection, numbered_parameters
from mayfly.schema.tables import PRIORITIES

MAX_INTERRUPTED_READ = 1000  # due jobs per lane and priority
DEFAULT_COUNT_CAP = 1000
LANES_PER_STATEMENT = 100  # with three priorities each; SQLite takes 500 SELECTs in one statement
MAX_OPEN_BATCHES = 1000


def next_due(
    columns: str,
    lane: str = ":lane",
    priority: str = ":priority",
    size: str = ":size",
    order: str = "",
    hint: str = "",
    since: str | None = None,
) -> str:
    """The one definition of due jobs and their order, for claims, counts, health and views.

    Lane, status and priority are equalities, so run_at is one range of the claim index. Even a count needs the order:
    without it PostgreSQL may overestimate the due jobs and scan the whole table, expecting to find enough soon.
    """
    begin = f" AND run_at >= {since}" if since else ""
    return (
        f"SELECT {columns} FROM mayfly_jobs{hint}"
        f" WHERE lane = {lane} AND status = 'pending' AND priority = {priority}"
        f"{begin} AND run_at <= :now ORDER BY run_at{order}, id{order} LIMIT {size}"
    )


# Descending: at the start of the range are the index entries of jobs that were just claimed, and InnoDB visits each
# of them that it has not purged yet, under a lock, even to find that a higher priority has no due jobs.
DUE_PRIORITIES = " UNION ALL ".join(
    f"SELECT {each} FROM ({next_due('id', priority=str(each), size='1', order=' DESC')}) AS due_{each}"
    for each in PRIORITIES
)
INTERRUPTED_JOBS = " UNION ALL ".join(
    f"SELECT run_at, id FROM ({next_due('id, run_at, interruptions', priority=str(each))}) AS due_{each}"
    " WHERE interruptions > 0"
    for each in PRIORITIES
)
# With a constant bound MIN is one index probe everywhere. In a recursive CTE, MariaDB scans the index for each lane.
NEXT_LANE = "SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane"
ANY_PROCESSING = "SELECT id FROM mayfly_jobs WHERE lane = :lane AND status = 'processing' LIMIT 1"

# A batch that may be complete: no more jobs will be added to it, and its completion is not recorded.
IS_SEALED = "sealed_at IS NOT NULL AND completed_at IS NULL"
SEALED_BATCHES = f"SELECT batch_key FROM mayfly_batches WHERE {IS_SEALED} ORDER BY batch_key LIMIT {MAX_OPEN_BATCHES}"
# Descending along the index of groups: finished jobs are mostly the older ones.
YOUNGEST_LIVE_JOB = (
    "SELECT id FROM mayfly_jobs WHERE group_key = :key AND status IN ('pending', 'processing')"
    " ORDER BY id DESC LIMIT 1"
)
LIVE_JOB = "SELECT id FROM mayfly_jobs WHERE id = :id AND group_key = :key AND status IN ('pending', 'processing')"

KnownLiveJobs = dict[str, int]  # batch key → a job that was live when the batch was last checked


class Due(NamedTuple):
    lane: str
    pending: int
    capped: bool  # there may be more: the count stopped here

    def plus(self, more: int) -> "Due":
        return self._replace(pending=self.pending + more)

    def __str__(self) -> str:
        return f"{self.pending}+" if self.capped else str(self.pending)


# --- lanes ------------------------------------------------------------------------------------------------


def find_lanes(connection: Connection) -> list[str]:
    """The lanes that have any rows: one probe of the claim index per lane, regardless of the number of rows."""
    lanes: list[str] = []
    lane = ""
    while (lane := connection.execute(NEXT_LANE, {"lane": lane}).scalar()) is not None:
        lanes.append(lane)
    return lanes


def has_due(connection: Connection, lane: str, now: datetime) -> bool:
    return bool(due_priorities(connection, lane, now))


def due_priorities(connection: Connection, lane: str, now: datetime) -> list[int]:
    """The priorities that have due jobs, high first. Read without locks: another claim may be taking these jobs."""
    return sorted(connection.execute(DUE_PRIORITIES, {"lane": lane, "now": now}).scalars())


def has_processing(connection: Connection, lane: str) -> bool:
    return connection.execute(ANY_PROCESSING, {"lane": lane}).first() is not None


def interrupted_jobs(connection: Connection, lane: str, now: datetime, count: int) -> list[int]:
    """Ids of the oldest due jobs that a guard has interrupted, of any priority."""
    values = {"lane": lane, "now": now, "size": MAX_INTERRUPTED_READ}
    found = connection.execute(INTERRUPTED_JOBS, values).all()
    return [job_id for _run_at, job_id in sorted(found)[:count]]


# --- counts -----------------------------------------------------------------------------------------------


def count_due(
    connection: Connection, now: datetime, cap_of: Callable[[str], int] = lambda _lane: DEFAULT_COUNT_CAP
) -> list[Due]:
    """The lanes that have any rows, each with its due jobs counted up to its cap."""
    caps = {lane: cap_of(lane) for lane in find_lanes(connection)}
    counted = count_in(connection, caps, now)
    return [Due(lane, min(counted[lane], cap), counted[lane] > cap) for lane, cap in caps.items()]


def count_in(connection: Connection, caps: Mapping[str, int], now: datetime) -> Counter[str]:
    """The due jobs of these lanes; a count above a lane's cap only means that there are more."""
    lanes = list(caps)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = lanes[start : start + LANES_PER_STATEMENT]
        values = {**numbered_parameters(part, "lane"), "now": now}
        for number, pending in connection.execute(count_statement([caps[lane] for lane in part]), values).all():
            counted[part[number]] += pending
    return counted


def lanes_with_due(connection: Connection, lanes: Sequence[str], now: datetime) -> set[str]:
    """Reads one row of each lane and priority."""
    counted = count_in(connection, dict.fromkeys(lanes, 0), now)
    return {lane for lane, pending in counted.items() if pending}


def count_statement(caps: Sequence[int]) -> str:
    """One statement for several lanes: one row per lane and priority, which stops one beyond the lane's cap."""
    queries = [
        (number, next_due("id", f":lane_{number}", str(priority), str(cap + 1)))
        for number, cap in enumerate(caps)
        for priority in PRIORITIES
    ]
    return " UNION ALL ".join(
        f"SELECT {lane}, COUNT(*) FROM ({query}) AS counted_{number}" for number, (lane, query) in enumerate(queries)
    )


# --- batches ----------------------------------------------------------------------------------------------


def finished_batches(connection: Connection) -> list[str]:
    """Batches without a live job whose completion is not recorded."""
    sealed = [key for (key,) in connection.execute(SEALED_BATCHES).all()]
    return without_live_jobs(connection, sealed, {})


def without_live_jobs(connection: Connection, keys: Iterable[str], known: KnownLiveJobs) -> list[str]:
    return [key for key in keys if not _has_live_job(connection, key, known)]


def _has_live_job(connection: Connection, key: str, known: KnownLiveJobs) -> bool:
    """The youngest live job usually ends last, so it is remembered and checked first."""
    if key in known and connection.execute(LIVE_JOB, {"id": known[key], "key": key}).first() is not None:
        return True
    found = connection.execute(YOUNGEST_LIVE_JOB, {"key": key}).scalar()
    if found is None:
        known.pop(key, None)
        return False
    known[key] = found
    return True
