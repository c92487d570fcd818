"""Lists of jobs: pages of matching jobs, counts per status, and dead jobs by type and error.

Nothing here reads a whole table: counts stop at a cap, searches after a number of rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from mayfly import json_text
from mayfly.admin import filters
from mayfly.admin.filters import MAX_ROWS_SEARCHED, JobFilter, Position, Range, not_empty, ranges
from mayfly.db.connection import Connection
from mayfly.db.dialects import utc_from_driver
from mayfly.errors import BadField
from mayfly.fleet.runners import starts_by_runner
from mayfly.format import plural
from mayfly.job import source_row_of
from mayfly.queue.count import find_lanes
from mayfly.schema.tables import CLAIMED, DEAD, PROCESSING, RUNNING, STATUSES

MAX_COUNTED = 10_000
View = TypeVar("View")
Key = TypeVar("Key")


class CappedCount(NamedTuple):
    number: int = 0
    is_more: bool = False  # there are more: the count stopped here

    @classmethod
    def of(cls, counted: int, cap: int) -> "CappedCount":
        """From a count that stopped at cap + 1."""
        return cls(min(counted, cap), counted > cap)

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.is_more else f"{self.number:,}"

    def plural(self, noun: str) -> str:
        """1 job, 2 jobs, 10,000+ jobs."""
        return f"{self} {noun}s" if self.is_more else plural(self.number, noun)


def facts_of(view: Any) -> dict[str, Any]:
    """The fields of a view as JSON values; nested views become objects."""
    facts: dict[str, Any] = {}
    for name, value in view._asdict().items():
        if isinstance(value, CappedCount):
            facts |= {name: value.number, f"{name}_is_capped": value.is_more}
        else:
            facts[name] = json_value(value)
    return facts


def json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if hasattr(value, "_asdict"):
        return facts_of(value)
    return [json_value(each) for each in value] if isinstance(value, tuple) else value


def read_views(
    connection: Connection,
    view: type[View],
    source: str,
    values: Mapping[str, Any] | None = None,
    ids: Sequence[int] | None = None,
) -> list[View]:
    """Rows as views, whose fields are columns. `source` is the rest of the statement after FROM."""
    rows = connection.execute(view_statement(view, source), values or {}, ids).all()
    return [view(**read_row(tuple(view.__annotations__), row)) for row in rows]


def view_statement(view: type[Any], source: str) -> str:
    table = source.partition(" ")[0]  # SIGNAL alone is a keyword in MySQL
    return f"SELECT {', '.join(f'{table}.{name}' for name in view.__annotations__)} FROM {source}"


def read_row(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """A row by the names of its columns; columns that end in _at or _until are times."""
    return {name: _read(name, value) for name, value in zip(names, row, strict=True)}


def _read(name: str, value: Any) -> Any:
    is_time = name.endswith(("_at", "_until"))
    return utc_from_driver(value) if is_time and value is not None else value


MAX_PAGE_SIZE = 1000
ERROR_SHOWN = 200
ALL_STATUSES = dict.fromkeys(STATUSES, "")
CLOCK_TOLERANCE = timedelta(seconds=1)  # between the clocks of two processes, each measured once

Hit = tuple[Position, int]


class RowView(NamedTuple):
    """The row of a source from which a job comes."""

    source: str
    key: str

    @classmethod
    def of(cls, unique_key: str | None) -> "RowView | None":
        row = source_row_of(unique_key)
        return None if row is None else cls(row.source, row.key)

    def __str__(self) -> str:
        return f"{self.source} {self.key}"


class JobLine(NamedTuple):
    id: int
    lane: str
    type: str
    status: str
    priority: int
    run_at: datetime
    attempts: int
    max_attempts: int
    group_key: str | None
    created_at: datetime
    finished_at: datetime | None
    waiting_for: str | None
    error: str | None  # its beginning, on one line
    state: str  # its status, or instead of `processing` whether it is only claimed or running
    worker_id: str | None
    locked_at: datetime | None  # when it was claimed
    started_at: datetime | None  # of the current run, or of the last one that has ended

    progress: Any  # as `job.progress()` stored it
    row: "RowView | None"  # from which it comes

    @property
    def reported(self) -> "ReportedProgress | None":
        return ReportedProgress.of(self.progress)


class ReportedProgress(NamedTuple):
    """What a handler has reported with `job.progress()`."""

    done: float
    total: float | None = None
    text: str = ""

    @classmethod
    def of(cls, stored: Any) -> "ReportedProgress | None":
        """None for other values, which plain SQL may have written."""
        if not isinstance(stored, dict) or not _is_number(stored.get("done")):
            return None
        total, text = stored.get("total"), stored.get("text")
        return cls(stored["done"], total if _is_number(total) else None, text if isinstance(text, str) else "")

    @property
    def percent(self) -> int | None:
        """Rounded down: 100 only if all is done."""
        return min(100, max(0, int(100 * self.done / self.total))) if self.total and self.total > 0 else None

    def __str__(self) -> str:
        """1,500 of 40,000 rows."""
        return f"{self.done:,}{'' if self.total is None else f' of {self.total:,}'}{self.text and f' {self.text}'}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def decoded(text: str | None) -> Any:
    """A value inserted by plain SQL may be nested too deeply for Python: it stays text."""
    try:
        return None if text is None else json_text.decode(text)
    except ValueError:
        return text


class JobPage(NamedTuple):
    jobs: tuple[JobLine, ...]
    next: str | None = None  # where the next page begins; None on the last page
    is_cut: bool = False  # the search stopped before the page was full; the next page continues there


def list_jobs(connection: Connection, job_filter: JobFilter, size: int = 50, after: str | None = None) -> JobPage:
    """`after` is the `next` of the previous page.

    If no index covers a condition, MAX_ROWS_SEARCHED rows are read, and the next page continues there.
    """
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise BadField("size", size, f"an integer from 1 to {MAX_PAGE_SIZE}")
    found = _ranges(connection, job_filter.checked())
    begin = (
        filters.read_position(connection.dialect, after, len(found[0].key)) if found and after is not None else None
    )
    if any(each.unindexed for each in found):
        found = not_empty(connection, found, begin)
    window = max(size, MAX_ROWS_SEARCHED // max(1, len(found)))
    hits: list[Hit] = []
    frontier: Position | None = None
    for each in found:
        floor = each.floor(connection, window, begin) if each.unindexed else None
        rows = each.find(connection, size + 1, begin, newest_first=True, floor=floor)
        hits += [(filters.position_of(row), row[0]) for row in rows]
        if floor is not None and len(rows) <= size and (frontier is None or floor > frontier):
            frontier = floor  # below it not every range was searched
    known = sorted((hit for hit in hits if frontier is None or hit[0] >= frontier), reverse=True)
    ids = filters.matching(connection, job_filter, [job_id for _position, job_id in known[:size]])
    lines = tuple(read_lines(connection, ids))
    if len(known) > size:
        return JobPage(lines, filters.position_text(known[size - 1][0]))
    return JobPage(lines, None if frontier is None else filters.position_text(frontier), is_cut=frontier is not None)


def _ranges(connection: Connection, job_filter: JobFilter) -> list[Range]:
    """Without a lane, status, group or error: the whole table, in order of arrival."""
    if job_filter == job_filter._replace(ids=None, lane=None, status=None, group_key=None, error=None):
        return [filters.all_jobs(job_filter, connection.dialect)]
    return ranges(connection, job_filter, ALL_STATUSES, {})


ERROR_BEGIN = f"SUBSTR(last_error, 1, {ERROR_SHOWN})"
COLUMNS = {
    "error": ERROR_BEGIN,
    "state": "status",
    "row": "unique_key",
}  # of fields that are not named after their column
LINES = (
    f"SELECT {', '.join(COLUMNS.get(name, name) for name in JobLine._fields)} FROM mayfly_jobs WHERE {{ids of id}}"
)


def read_lines(connection: Connection, ids: Sequence[int]) -> Iterator[JobLine]:
    """In the order of the ids, without jobs that have been pruned."""
    rows = connection.execute(LINES, ids=ids).all() if ids else ()
    found = {row[0]: JobLine(**read_row(JobLine._fields, row)) for row in rows}
    processing = [each for each in found.values() if each.status == PROCESSING and each.worker_id is not None]
    starts = starts_by_runner(connection, (each.worker_id for each in processing if each.worker_id))
    for line in processing:
        started_at = current_start(line.id, line.locked_at, starts.get(line.worker_id or "", {}))
        found[line.id] = line._replace(state=state_of(PROCESSING, started_at), started_at=started_at)
    return (_shown(found[each]) for each in ids if each in found)


def _shown(line: JobLine) -> JobLine:
    row: Any = line.row  # as read: the unique key
    return line._replace(error=first_line(line.error), progress=decoded(line.progress), row=RowView.of(row))


def current_start(job_id: int, claimed_at: datetime | None, starts: Mapping[int, datetime]) -> datetime | None:
    """When the handler of a claimed job started, from the figures of its runner; None if it is only claimed.

    A start before the claim belongs to an earlier run in the same runner.
    """
    started_at = starts.get(job_id)
    is_current = started_at is not None and (claimed_at is None or started_at > claimed_at - CLOCK_TOLERANCE)
    return started_at if is_current else None


def state_of(status: str, started_at: datetime | None) -> str:
    """`processing` is shown as claimed or running; `started_at` is the start of the current run."""
    if status != PROCESSING:
        return status
    return CLAIMED if started_at is None else RUNNING


def first_line(error: str | None) -> str | None:
    return None if error is None else error.partition("\n")[0][:ERROR_SHOWN]


MAX_STATUS_COUNTED = 1000  # per status: every page of jobs shows these counts
LANES_PER_STATEMENT = 40

COUNT_GROUP = (
    "SELECT status, COUNT(*) FROM"
    " (SELECT status FROM mayfly_jobs WHERE group_key = :key ORDER BY id DESC LIMIT :size) AS newest GROUP BY status"
)


def count_statuses(connection: Connection, job_filter: JobFilter) -> Mapping[str, CappedCount]:
    """Jobs per status of a lane, of a group or of all jobs; empty for a filter that no index covers."""
    wanted, group_key, lane = job_filter._replace(status=None), job_filter.group_key, job_filter.lane
    if group_key is not None and wanted == JobFilter(group_key=group_key):
        in_group = count_group(connection, group_key, MAX_STATUS_COUNTED)
        is_more = sum(in_group.values()) > MAX_STATUS_COUNTED
        return {status: CappedCount(in_group.get(status, 0), is_more) for status in STATUSES}
    if wanted != JobFilter(lane=lane):
        return {}
    lanes = [lane] if lane is not None else find_lanes(connection)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = lanes[start : start + LANES_PER_STATEMENT]
        left = [status for status in STATUSES if counted[status] <= MAX_STATUS_COUNTED]
        counted.update(_count_lanes(connection, part, left))
    return {status: CappedCount.of(counted[status], MAX_STATUS_COUNTED) for status in STATUSES}


def _count_lanes(connection: Connection, lanes: Sequence[str], statuses: Sequence[str]) -> Counter[str]:
    queries = [
        (status, jobs_with(status, f":lane_{number}", MAX_STATUS_COUNTED + 1))
        for number in range(len(lanes))
        for status in statuses
    ]
    counted: Counter[str] = Counter()
    values = {f"lane_{number}": lane for number, lane in enumerate(lanes)}
    for status, number in aggregate_each(connection, "COUNT(*)", queries, values):
        counted[status] += int(number)
    return counted


def aggregate_each(
    connection: Connection, aggregate: str, queries: Sequence[tuple[Key, str]], values: Mapping[str, Any]
) -> Iterator[tuple[Key, Any]]:
    """An aggregate over each query, in one statement."""
    statement = aggregates_statement(aggregate, [query for _key, query in queries])
    rows = connection.execute(statement, values).all() if queries else ()
    return ((queries[number][0], value) for number, value in rows)


def aggregates_statement(aggregate: str, queries: Sequence[str]) -> str:
    return " UNION ALL ".join(
        f"SELECT {number}, {aggregate} FROM ({query}) AS query_{number}" for number, query in enumerate(queries)
    )


def jobs_with(status: str, lane: str, size: int) -> str:
    """In the order of the claim index."""
    where = f"lane = {lane} AND status = '{status}'"
    return f"SELECT id FROM mayfly_jobs WHERE {where} ORDER BY priority, run_at, id LIMIT {size}"


def count_group(connection: Connection, key: str, cap: int) -> dict[str, int]:
    """Jobs per status among the newest `cap` + 1 of a group, which may have a million."""
    rows = connection.execute(COUNT_GROUP, {"key": key, "size": cap + 1}).all()
    return {status: int(number) for status, number in rows}


MAX_DEAD_READ = 5_000  # the newest dead jobs: finding the last attempt of each takes time
MAX_GROUPS = 100
MESSAGES = f"SELECT id, {ERROR_BEGIN} FROM mayfly_jobs WHERE {{ids of id}}"
WINDOWS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


class DeadGroup(NamedTuple):
    type: str
    error: str  # fingerprint; empty if no attempt is kept
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    newest_id: int
    lately: Mapping[str, int]  # jobs that died within each of WINDOWS
    message: str | None = None  # of the newest


class DeadGroups(NamedTuple):
    groups: tuple[DeadGroup, ...]
    looked_at: int  # number of dead jobs that were read
    is_cut: bool  # there are more dead jobs, or more groups, than these


def most_frequent(group: DeadGroup) -> Any:
    return -group.jobs, -group.newest_id


def newest(group: DeadGroup) -> Any:
    return group.last_at is None, -group.last_at.timestamp() if group.last_at else 0.0, -group.newest_id


def list_dead(
    connection: Connection,
    lane: str | None,
    now: datetime,
    order: Callable[[DeadGroup], Any] = most_frequent,
    max_read: int | None = None,
) -> DeadGroups:
    """The newest dead jobs of each lane and priority, grouped."""
    job_filter = JobFilter(lane=lane, status=DEAD).checked()
    found = not_empty(connection, ranges(connection, job_filter, {DEAD: ""}, {}))
    share = (max_read or MAX_DEAD_READ) // max(1, len(found))
    died = [row for each in found for row in connection.execute(newest_dead(each), each.given(share)).all()]
    groups = sorted(_groups(died, now), key=order)
    is_cut = len(groups) > MAX_GROUPS or any(each.floor(connection, share + 1) for each in found)
    newest_ids = [each.newest_id for each in groups[:MAX_GROUPS]]
    messages = dict(connection.execute(MESSAGES, ids=newest_ids).all()) if groups else {}
    shown = (each._replace(message=first_line(messages.get(each.newest_id))) for each in groups[:MAX_GROUPS])
    return DeadGroups(tuple(shown), len(died), is_cut)


def _groups(died: Iterable[Sequence[Any]], now: datetime) -> Iterator[DeadGroup]:
    jobs: dict[tuple[str, str], list[tuple[int, datetime | None]]] = {}
    for job_id, type_name, died_at, error in died:
        jobs.setdefault((type_name, error), []).append((job_id, died_at and utc_from_driver(died_at)))
    for (type_name, error), known in jobs.items():
        times = [at for _job_id, at in known if at is not None]
        first_at, last_at = min(times, default=None), max(times, default=None)
        lately = {name: sum(at >= now - window for at in times) for name, window in WINDOWS.items()}
        yield DeadGroup(type_name, error, len(known), first_at, last_at, max(job_id for job_id, _at in known), lately)


def newest_dead(found: Range) -> str:
    """With the fingerprint of the last attempt of each."""
    newest = found.newest("id, type, finished_at")
    # Not by id alone: PostgreSQL would scan the primary key backwards until it finds an attempt of this job.
    last = "SELECT fingerprint FROM mayfly_attempts WHERE job_id = d.id ORDER BY id + 0 DESC LIMIT 1"
    # Not a join: PostgreSQL would read all attempts.
    return f"SELECT d.*, COALESCE(({last}), '') FROM ({newest}) AS d"
