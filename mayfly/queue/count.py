"""Looks at the table of jobs that take nothing: cheap enough for every minute and for every claim."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from mayfly.db.connection import Connection
from mayfly.schema.tables import PRIORITIES

MAX_INTERRUPTED_READ = 1000  # due jobs per lane and priority


def next_due(
    columns: str,
    lane: str = ":lane",
    priority: str = ":priority",
    size: str = ":size",
    order: str = "",
    hint: str = "",
    since: str | None = None,
) -> str:
    """Lane, status and priority are equalities, so run_at is a pure range of the claim index.

    The order matters even to those who only count: without it PostgreSQL may take delayed and finished jobs for
    due ones, and scan the whole table in the hope of finding enough of them soon.
    """
    begin = f" AND run_at >= {since}" if since else ""
    return (
        f"SELECT {columns} FROM mayfly_jobs{hint}"
        f" WHERE lane = {lane} AND status = 'pending' AND priority = {priority}"
        f"{begin} AND run_at <= :now ORDER BY run_at{order}, id{order} LIMIT {size}"
    )


def has_due(connection: Connection, lane: str, now: datetime) -> bool:
    return bool(due_priorities(connection, lane, now))


def due_priorities(connection: Connection, lane: str, now: datetime) -> list[int]:
    """Those that have due high first. Without locks: some of these jobs may be in somebody's hands.

    From the far end: at the near one lie the index entries of what was just claimed, and InnoDB goes through all of
    them that it has not removed yet, under a lock each, even to find that a priority before them is empty.
    """
    return sorted(connection.execute(due_priorities_statement(), {"lane": lane, "now": now}).scalars())


@cache
def due_priorities_statement() -> str:
    looks = {each: next_due("id", priority=str(each), size="1", order=" DESC") for each in PRIORITIES}
    return " UNION ALL ".join(f"SELECT {each} FROM ({look}) AS due_{each}" for each, look in looks.items())


def interrupted_jobs(connection: Connection, lane: str, now: datetime, count: int) -> list[int]:
    """Ids of the oldest due jobs that a guard has interrupted, whatever their priority."""
    values = {"lane": lane, "now": now, "size": MAX_INTERRUPTED_READ}
    found = connection.execute(interrupted_statement(), values).all()
    return [job_id for _run_at, job_id in sorted(found)[:count]]


@cache
def interrupted_statement() -> str:
    due = {each: next_due("id, run_at, interruptions", priority=str(each)) for each in PRIORITIES}
    return " UNION ALL ".join(
        f"SELECT run_at, id FROM ({rows}) AS due_{each} WHERE interruptions > 0" for each, rows in due.items()
    )


def find_lanes(connection: Connection) -> list[str]:
    """The lanes that have any rows: hop along the claim index, one probe a lane, however many rows lie between."""
    lanes: list[str] = []
    lane = ""
    while (lane := connection.execute(next_lane_statement(), {"lane": lane}).scalar()) is not None:
        lanes.append(lane)
    return lanes


def next_lane_statement() -> str:
    """Beyond a constant, MIN is one probe everywhere. In a recursive CTE, MariaDB scans the index for each lane."""
    return "SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane"


def processing_statement() -> str:
    """Along the claim index: only what is being processed is read, and that is little."""
    columns = (
        "worker_id", "id", "type", "payload", "attempts", "max_attempts", "claims", "crashes", "interruptions",
        "suspect", "run_at", "group_key", "stalled", "forgiven",
    )  # fmt: skip
    where = "lane = :lane AND status = 'processing'"
    return f"SELECT {', '.join(columns)} FROM mayfly_jobs WHERE {where}"


COUNT_AT_LEAST = 1000
LANES_PER_STATEMENT = 100  # with three priorities each; SQLite takes 500 SELECTs in one statement


class Due(NamedTuple):
    lane: str
    pending: int
    capped: bool  # there may be more: the count stopped here

    def plus(self, more: int) -> "Due":
        return self._replace(pending=self.pending + more)

    def __str__(self) -> str:
        return f"{self.pending}+" if self.capped else str(self.pending)


def count_due(
    connection: Connection,
    now: datetime,
    cap_of: Callable[[str], int] = lambda _lane: COUNT_AT_LEAST,
) -> list[Due]:
    """The lanes that have any rows, each with its due counted to its cap."""
    caps = {lane: cap_of(lane) for lane in find_lanes(connection)}
    counted = count_in(connection, caps, now)
    return [Due(lane, min(counted[lane], cap), counted[lane] > cap) for lane, cap in caps.items()]


def count_in(connection: Connection, caps: Mapping[str, int], now: datetime) -> Counter[str]:
    """The due jobs of these lanes. More than a lane's cap means no more than that there are more."""
    lanes = list(caps)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = {lane: caps[lane] for lane in lanes[start : start + LANES_PER_STATEMENT]}
        for number, pending in _count(connection, part, now):
            counted[lanes[start + number]] += pending
    return counted


def lanes_with_due(connection: Connection, lanes: Sequence[str], now: datetime) -> set[str]:
    """Those of the lanes that have anything to do: one row of each is looked at."""
    found: set[str] = set()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = dict.fromkeys(lanes[start : start + LANES_PER_STATEMENT], 0)
        found.update(lanes[start + number] for number, due in _count(connection, part, now) if due)
    return found


def _count(connection: Connection, caps: Mapping[str, int], now: datetime) -> Sequence[tuple[int, int]]:
    """The number of each lane among the caps, and the due jobs of one of its priorities."""
    names = {f"lane_{number}": lane for number, lane in enumerate(caps)}
    return connection.execute(count_statement(list(caps.values())), {**names, "now": now}).all()


def count_statement(caps: Sequence[int]) -> str:
    """One statement for several lanes: a row for each lane and priority, which stops one beyond the lane's cap."""
    parts = []
    for number, cap in enumerate(caps):
        for priority in PRIORITIES:
            due = next_due("id", f":lane_{number}", str(priority), str(cap + 1))
            parts.append(f"SELECT {number}, COUNT(*) FROM ({due}) AS due_{number}_{priority}")
    return " UNION ALL ".join(parts)


MAX_OPEN_BATCHES = 1000
IS_OPEN = "sealed_at IS NOT NULL AND completed_at IS NULL"
SEALED = f"SELECT batch_key FROM mayfly_batches WHERE {IS_OPEN} ORDER BY batch_key LIMIT {MAX_OPEN_BATCHES}"

KnownLiveJobs = dict[str, int]  # a live job of each batch, when somebody last looked


def finished_batches(connection: Connection) -> list[str]:
    """Batches that are over, and that nobody has seen to be."""
    sealed = [key for (key,) in connection.execute(SEALED).all()]
    return finished(connection, sealed, {})


def finished(connection: Connection, keys: Iterable[str], witnesses: KnownLiveJobs) -> list[str]:
    """Those of these groups that have no live job."""
    return [key for key in keys if not _is_live(connection, key, witnesses)]


def _is_live(connection: Connection, key: str, witnesses: KnownLiveJobs) -> bool:
    """The youngest live job is mostly the last to end, so it is asked for first as long as it lives."""
    if key in witnesses:
        asked = {"id": witnesses[key], "key": key}
        if connection.execute(live_job_statement(), asked).first() is not None:
            return True
    found = connection.execute(youngest_statement(), {"key": key}).scalar()
    if found is None:
        witnesses.pop(key, None)
        return False
    witnesses[key] = found
    return True


@cache
def youngest_statement() -> str:
    """Backwards along the index of groups: those that ended are mostly the older ones."""
    return f"SELECT id FROM mayfly_jobs WHERE group_key = :key AND {_live()} ORDER BY id DESC LIMIT 1"


@cache
def live_job_statement() -> str:
    return f"SELECT id FROM mayfly_jobs WHERE id = :id AND group_key = :key AND {_live()}"


def _live() -> str:
    return "status IN ('pending', 'processing')"
