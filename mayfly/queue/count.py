"""Queries without locks: groups of jobs, due jobs, capped counts, finished batches.

Fast enough for every minute and every claim. No heavy imports: the idle check uses this module.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from mayfly.db.connection import Connection, numbered_parameters
from mayfly.db.dialects import Dialect, utc_from_driver
from mayfly.schema.tables import PENDING, PRIORITIES, PROCESSING, STATUSES

MAX_INTERRUPTED_READ = 1000  # due jobs per lane and priority
DEFAULT_COUNT_CAP = 1000
COUNTS_PER_STATEMENT = 100  # PostgreSQL takes disproportionately long to plan more
MAX_OPEN_BATCHES = 1000
FIRST_TIME = datetime(1, 1, 1, tzinfo=UTC)  # see column_types.is_storable_time


def next_due(
    columns: str,
    lane: str = ":lane",
    priority: str = ":priority",
    size: str = ":size",
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
        f"{begin} AND run_at <= :now ORDER BY run_at, id LIMIT {size}"
    )


GROUP_COLUMNS = ("lane", "status", "priority", "run_at")  # the first ones of the claim index
NEXT_LANE = "SELECT MIN(lane) FROM mayfly_jobs WHERE lane > :lane"  # one index probe, because the bound is constant
GROUPS_OF_LANE = " UNION ALL ".join(
    f"SELECT '{status}', {priority}, run_at FROM (SELECT run_at FROM mayfly_jobs"
    f" WHERE lane = :lane AND status = '{status}' AND priority = {priority} ORDER BY run_at, id LIMIT 1)"
    f" AS {status}_{priority}"
    for status in STATUSES
    for priority in PRIORITIES
)

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


class JobGroup(NamedTuple):
    """The jobs of a lane that have the same status and priority; there is at least one."""

    lane: str
    status: str
    priority: int
    first_run_at: datetime

    def is_due(self, now: datetime) -> bool:
        return self.status == PENDING and self.first_run_at <= now


class Due(NamedTuple):
    lane: str
    pending: int
    capped: bool  # there may be more: the count stopped here

    def plus(self, more: int) -> "Due":
        return self._replace(pending=self.pending + more)

    def __str__(self) -> str:
        return f"{self.pending}+" if self.capped else str(self.pending)


# --- lanes ------------------------------------------------------------------------------------------------


def job_groups(connection: Connection) -> list[JobGroup]:
    """All jobs by lane, status and priority: one probe of the claim index per group, however many rows it has.

    One or two statements for all lanes; on SQLite, where a statement costs no round trip, two per lane.
    """
    statement = connection.dialect.first_of_each(connection, "mayfly_jobs", "mayfly_jobs_claim", GROUP_COLUMNS)
    found = _groups_by_lane(connection) if statement is None else connection.execute(statement).all()
    return [JobGroup(lane, status, priority, utc_from_driver(at)) for lane, status, priority, at in found]


def _groups_by_lane(connection: Connection) -> Iterator[tuple[str, str, int, datetime | str]]:
    lane = ""
    while (lane := connection.execute(NEXT_LANE, {"lane": lane}).scalar()) is not None:
        for status, priority, first_run_at in connection.execute(GROUPS_OF_LANE, {"lane": lane}).all():
            yield lane, status, priority, first_run_at


def find_lanes(connection: Connection) -> list[str]:
    """The lanes that have any rows."""
    return sorted({group.lane for group in job_groups(connection)})


def busy_lanes(connection: Connection) -> list[str]:
    """The lanes that have jobs in progress."""
    return sorted({group.lane for group in job_groups(connection) if group.status == PROCESSING})


def has_due(connection: Connection, lane: str, now: datetime) -> bool:
    return bool(due_jobs(connection, lane, now).first_at)


class ClaimCursor(NamedTuple):
    """A position in the claim index that the claims of a lane have reached."""

    priority: int
    run_at: datetime


class DueJobs(NamedTuple):
    """Which due jobs a lane has; empty: none."""

    # By priority, high first: run_at of its first due job, where a claim may begin. As a text if the database stores
    # one, because SQLite would find another form of the same time to be later.
    first_at: Mapping[int, datetime | str] = MappingProxyType({})
    single: int | None = None  # the id, if there is only one job, and no application may hold a lock on it by its key


def due_jobs(connection: Connection, lane: str, now: datetime, cursor: ClaimCursor | None = None) -> DueJobs:
    """Read without locks: another claim may be taking these jobs. Of the priority of the cursor, none before it."""
    values = {"lane": lane, "now": now, **{f"since_{each}": FIRST_TIME for each in PRIORITIES}}
    if cursor is not None:
        values[f"since_{cursor.priority}"] = cursor.run_at
    found = sorted(connection.execute(due_jobs_statement(connection.dialect), values).all())
    single = found[0][2] if len(found) == 1 and found[0][3] else None
    first_at: dict[int, datetime | str] = {}
    for priority, run_at, _id, _has_no_key in found:
        first_at.setdefault(priority, run_at if isinstance(run_at, str) else utc_from_driver(run_at))
    return DueJobs(first_at, single)


@cache
def due_jobs_statement(dialect: Dialect) -> str:
    """Two rows of each priority: a single job can be claimed without a transaction, see mayfly.queue.single_claim."""
    hint = dialect.in_order_of("mayfly_jobs_claim")
    columns = "run_at, id, unique_key"
    return " UNION ALL ".join(
        f"SELECT {each}, run_at, id, unique_key IS NULL"
        f" FROM ({next_due(columns, priority=str(each), size='2', hint=hint, since=f':since_{each}')}) AS due_{each}"
        for each in PRIORITIES
    )


def interrupted_jobs(connection: Connection, wanted: Mapping[str, int], now: datetime) -> dict[str, list[int]]:
    """By lane: ids of the oldest due jobs that a guard has interrupted, of any priority, as many as wanted."""
    found: dict[str, list[tuple[datetime | str, int]]] = defaultdict(list)
    lanes = list(wanted)
    for start in range(0, len(lanes), COUNTS_PER_STATEMENT // len(PRIORITIES)):
        part = lanes[start : start + COUNTS_PER_STATEMENT // len(PRIORITIES)]
        values = {**numbered_parameters(part, "lane"), "now": now}
        for number, run_at, job_id in connection.execute(interrupted_statement(len(part)), values).all():
            found[part[number]].append((run_at, job_id))
    return {lane: [job_id for _run_at, job_id in sorted(jobs)[: wanted[lane]]] for lane, jobs in found.items()}


@cache
def interrupted_statement(lanes: int) -> str:
    """Of several lanes: the number of the lane, and the interrupted jobs among its first due ones."""
    return " UNION ALL ".join(
        f"SELECT {number}, run_at, id FROM ({_due_with_interruptions(number, priority)}) AS due_{number}_{priority}"
        " WHERE interruptions > 0"
        for number, priority in product(range(lanes), PRIORITIES)
    )


def _due_with_interruptions(number: int, priority: int) -> str:
    return next_due("id, run_at, interruptions", f":lane_{number}", str(priority), str(MAX_INTERRUPTED_READ))


# --- counts -----------------------------------------------------------------------------------------------


def count_due(
    connection: Connection, now: datetime, cap_of: Callable[[str], int] = lambda _lane: DEFAULT_COUNT_CAP
) -> list[Due]:
    """The lanes that have any rows, each with its due jobs counted up to its cap."""
    groups = job_groups(connection)
    caps = {lane: cap_of(lane) for lane in sorted({group.lane for group in groups})}
    counted = _count(connection, [(group.lane, group.priority) for group in groups if group.is_due(now)], caps, now)
    return [Due(lane, min(counted[lane], cap), counted[lane] > cap) for lane, cap in caps.items()]


def count_in(connection: Connection, caps: Mapping[str, int], now: datetime) -> Counter[str]:
    """The due jobs of these lanes; a count above a lane's cap only means that there are more."""
    return _count(connection, list(product(caps, PRIORITIES)), caps, now)


def lanes_with_due(connection: Connection, lanes: Sequence[str], now: datetime) -> set[str]:
    """Of these lanes. Reads one row of each lane and priority."""
    counted = count_in(connection, dict.fromkeys(lanes, 0), now)
    return {lane for lane, pending in counted.items() if pending}


def _count(
    connection: Connection, queues: Sequence[tuple[str, int]], caps: Mapping[str, int], now: datetime
) -> Counter[str]:
    """`queues` are lanes and priorities."""
    counted: Counter[str] = Counter()
    for start in range(0, len(queues), COUNTS_PER_STATEMENT):
        part = queues[start : start + COUNTS_PER_STATEMENT]
        values = {**numbered_parameters([lane for lane, _priority in part], "lane"), "now": now}
        statement = count_statement([(priority, caps[lane]) for lane, priority in part])
        for number, pending in connection.execute(statement, values).all():
            counted[part[number][0]] += pending
    return counted


def count_statement(queues: Sequence[tuple[int, int]]) -> str:
    """For several lanes, given by a priority and a cap each: one row per lane, which stops one beyond the cap."""
    queries = [
        next_due("id", f":lane_{at}", str(priority), str(cap + 1)) for at, (priority, cap) in enumerate(queues)
    ]
    return " UNION ALL ".join(
        f"SELECT {number}, COUNT(*) FROM ({query}) AS counted_{number}" for number, query in enumerate(queries)
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
