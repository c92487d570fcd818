"""Lists of jobs: a page of those that match a filter, counts per status, and the dead by type and error.

No list counts or searches a whole table: counts stop at a cap, searches at a number of rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from mayfly.admin.filters import (
    JobFilter,
    Position,
    Range,
    all_jobs,
    field_pattern,
    has_field,
    not_empty,
    pattern,
    position_of,
    position_text,
    ranges,
    read_payloads,
    read_position,
)
from mayfly.db.connection import Connection
from mayfly.db.dialects import Dialect, utc_from_driver
from mayfly.errors import BadField
from mayfly.queue.count import find_lanes
from mayfly.queue.failure import ERROR_LIMIT
from mayfly.schema.tables import DEAD, STATUSES

MAX_COUNTED = 10_000


class CappedCount(NamedTuple):
    number: int = 0
    is_more: bool = False  # there are more: the count stopped here

    @classmethod
    def of(cls, counted: int, cap: int) -> "CappedCount":
        """From a count that went to one beyond the cap."""
        return cls(min(counted, cap), counted > cap)

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.is_more else f"{self.number:,}"


def isoformat(at: datetime | None) -> str | None:
    """A time in JSON."""
    return None if at is None else at.astimezone(UTC).isoformat()


def facts_of(view: Any) -> dict[str, Any]:
    """The fields of a view as JSON values."""
    facts: dict[str, Any] = {}
    for name, value in view._asdict().items():
        if isinstance(value, CappedCount):
            facts |= {name: value.number, f"{name}_is_capped": value.is_more}
        else:
            facts[name] = isoformat(value) if isinstance(value, datetime) else value
    return facts


def read_row(names: Sequence[str], row: Sequence[Any]) -> Mapping[str, Any]:
    """A row by the names of its columns; columns that end in _at or _until are times."""
    return {name: _read(name, value) for name, value in zip(names, row, strict=True)}


def _read(name: str, value: Any) -> Any:
    is_time = name.endswith(("_at", "_until"))
    return utc_from_driver(value) if is_time and value is not None else value


MAX_ROWS_SEARCHED = 10_000  # per page, for conditions that no index covers
MAX_PAGE_SIZE = 1000
ERROR_SHOWN = 200
ALL_STATUSES = dict.fromkeys(STATUSES, "")

Hit = tuple[Position, int]


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

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class JobPage(NamedTuple):
    jobs: tuple[JobLine, ...]
    next: str | None = None  # where the next page begins; None on the last page
    is_cut: bool = False  # the search stopped before the page was full; the next page continues there

    def facts(self) -> dict[str, Any]:
        return {"jobs": [each.facts() for each in self.jobs], "next": self.next, "is_cut": self.is_cut}


def list_jobs(
    connection: Connection,
    job_filter: JobFilter,
    text: str | None = None,
    size: int = 50,
    after: str | None = None,
    field: tuple[str, str] | None = None,
) -> JobPage:
    """`text` is searched in payloads, errors and keys; `after` is the `next` of the previous page.

    `field` is a name and a value: payloads that have this field, at any depth.

    Conditions that an index covers cost nothing. For others MAX_ROWS_SEARCHED rows are read, and the next page
    continues where this one stopped.
    """
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise BadField("size", size, f"an integer from 1 to {MAX_PAGE_SIZE}")
    found = _ranges(connection, job_filter.checked(), text, field)
    begin = read_position(connection.dialect, after, len(found[0].key)) if found and after is not None else None
    if any(each.unindexed for each in found):
        found = not_empty(connection, found, begin)
    window = max(size, MAX_ROWS_SEARCHED // max(1, len(found)))
    hits: list[Hit] = []
    frontier: Position | None = None
    for each in found:
        floor = each.floor(connection, window, begin) if each.unindexed else None
        rows = each.find(connection, size + 1, begin, newest_first=True, floor=floor)
        hits += [(position_of(row), row[0]) for row in rows]
        if floor is not None and len(rows) <= size and (frontier is None or floor > frontier):
            frontier = floor  # below it not every range was searched
    known = sorted((hit for hit in hits if frontier is None or hit[0] >= frontier), reverse=True)
    ids = [job_id for _position, job_id in known[:size]]
    if field is not None:
        payloads = read_payloads(connection, ids)
        ids = [job_id for job_id in ids if has_field(payloads.get(job_id), *field)]
    lines = tuple(_lines(connection, ids))
    if len(known) > size:
        return JobPage(lines, position_text(known[size - 1][0]))
    return JobPage(lines, None if frontier is None else position_text(frontier), is_cut=frontier is not None)


def _ranges(
    connection: Connection, job_filter: JobFilter, text: str | None, field: tuple[str, str] | None
) -> list[Range]:
    """Without a lane, status, group or error: the whole table, in the order of arrival."""
    given = {} if text is None else {"text": pattern(text)}
    given |= {} if field is None else {"field": field_pattern(*field)}
    if job_filter == job_filter._replace(ids=None, lane=None, status=None, group_key=None, error=None):
        found = [all_jobs(job_filter, given)]
    else:
        found = ranges(connection, job_filter, ALL_STATUSES, given)
    dialect = connection.dialect
    searches = [] if text is None else [f"({' OR '.join(_contains(dialect))})"]
    searches += [] if field is None else [f"LOWER({dialect.as_text('payload')}) LIKE :field ESCAPE '!'"]
    return [each._replace(unindexed=" AND ".join(filter(None, (each.unindexed, *searches)))) for each in found]


def _contains(dialect: Dialect) -> Iterator[str]:
    for column in (dialect.as_text("payload"), "last_error", "type", "unique_key", "group_key"):
        yield f"LOWER({column}) LIKE :text ESCAPE '!'"


def _lines(connection: Connection, ids: Sequence[int]) -> Iterator[JobLine]:
    """In the order of the ids, without jobs that were pruned meanwhile."""
    if not ids:
        return
    rows = connection.execute(lines_statement(), ids=ids).all()
    found = {row[0]: read_row(JobLine._fields, row) for row in rows}
    for job_id in ids:
        if job_id in found:
            yield JobLine(**{**found[job_id], "error": first_line(found[job_id]["error"])})


def first_line(error: str | None) -> str | None:
    return None if error is None else error.partition("\n")[0][:ERROR_SHOWN]


@cache
def lines_statement() -> str:
    error = f"SUBSTR(last_error, 1, {ERROR_SHOWN})"
    columns = ", ".join(error if name == "error" else name for name in JobLine._fields)
    return f"SELECT {columns} FROM mayfly_jobs WHERE {{ids of id}}"


MAX_STATUS_COUNTED = 1000  # of each status: every page of jobs shows them
LANES_PER_STATEMENT = 40

COUNT_GROUP = (
    "SELECT status, COUNT(*) FROM"
    " (SELECT status FROM mayfly_jobs WHERE group_key = :key ORDER BY id DESC LIMIT :size) AS newest GROUP BY status"
)


def count_statuses(connection: Connection, job_filter: JobFilter) -> Mapping[str, CappedCount]:
    """Jobs per status, of a lane, of a group or of all; empty for a filter that no index covers."""
    wanted, group_key, lane = job_filter._replace(status=None), job_filter.group_key, job_filter.lane
    if group_key is not None and wanted == JobFilter(group_key=group_key):
        return _group_statuses(connection, group_key)
    if wanted != JobFilter(lane=lane):
        return {}
    lanes = [lane] if lane is not None else find_lanes(connection)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = lanes[start : start + LANES_PER_STATEMENT]
        left = tuple(status for status in STATUSES if counted[status] <= MAX_STATUS_COUNTED)
        values = {f"lane_{number}": lane for number, lane in enumerate(part)}
        rows = connection.execute(lanes_statement(len(part), left), values).all() if left else ()
        for number, figure in rows:
            counted[STATUSES[number]] += int(figure)
    return {status: CappedCount.of(counted[status], MAX_STATUS_COUNTED) for status in STATUSES}


def _group_statuses(connection: Connection, key: str) -> Mapping[str, CappedCount]:
    counted = count_group(connection, key, MAX_STATUS_COUNTED)
    is_more = sum(counted.values()) > MAX_STATUS_COUNTED
    return {status: CappedCount(counted.get(status, 0), is_more) for status in STATUSES}


def count_group(connection: Connection, key: str, cap: int) -> dict[str, int]:
    """Jobs per status of a group, of its newest `cap` + 1: it may have a million."""
    rows = connection.execute(COUNT_GROUP, {"key": key, "size": cap + 1}).all()
    return {status: int(number) for status, number in rows}


@cache
def lanes_statement(lanes: int, statuses: tuple[str, ...]) -> str:
    order = "priority, run_at, id"  # that of the index
    parts = []
    for number in range(lanes):
        for status in statuses:
            where = f"lane = :lane_{number} AND status = '{status}'"
            query = f"SELECT id FROM mayfly_jobs WHERE {where} ORDER BY {order} LIMIT {MAX_STATUS_COUNTED + 1}"
            index = STATUSES.index(status)
            parts.append(f"SELECT {index}, COUNT(*) FROM ({query}) AS counted_{number}_{index}")
    return " UNION ALL ".join(parts)


MAX_DEAD_READ = 5_000  # the newest dead jobs: finding the last attempt of each takes time
MAX_GROUPS = 100
WINDOWS = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7)}


class DeadGroup(NamedTuple):
    type: str
    error: str  # its fingerprint; empty where no attempt is kept
    jobs: int
    first_at: datetime | None
    last_at: datetime | None
    newest_id: int
    lately: Mapping[str, int]  # jobs that died within each of WINDOWS, if asked for
    message: str | None = None  # of the newest

    def facts(self) -> dict[str, Any]:
        return facts_of(self)


class DeadGroups(NamedTuple):
    groups: tuple[DeadGroup, ...]
    looked_at: int
    is_cut: bool  # there are more dead jobs, or more groups, than these

    def facts(self) -> dict[str, Any]:
        groups = [each.facts() for each in self.groups]
        return {"groups": groups, "looked_at": self.looked_at, "is_cut": self.is_cut}


def most_frequent(group: DeadGroup) -> Any:
    """Sort key: the largest group first."""
    return -group.jobs, -group.newest_id


def newest(group: DeadGroup) -> Any:
    """Sort key: the most recent death first."""
    return group.last_at is None, -group.last_at.timestamp() if group.last_at else 0.0, -group.newest_id


def list_dead(
    connection: Connection,
    lane: str | None = None,
    now: datetime | None = None,
    order: Callable[[DeadGroup], Any] = most_frequent,
    looked_at: int | None = None,
) -> DeadGroups:
    """The newest dead jobs of each lane and priority, grouped; with `now`, also how many died within each window."""
    since = {} if now is None else {name: now - window for name, window in WINDOWS.items()}
    job_filter = JobFilter(lane=lane, status=DEAD).checked()
    found = not_empty(connection, ranges(connection, job_filter, {DEAD: ""}, {}))
    share = (looked_at or MAX_DEAD_READ) // max(1, len(found))
    groups = sorted(
        merged_groups(group for each in found for group in _groups(connection, each, share, since)), key=order
    )
    is_cut = len(groups) > MAX_GROUPS or any(each.floor(connection, share + 1) for each in found)
    shown = tuple(_with_messages(connection, groups[:MAX_GROUPS]))
    return DeadGroups(shown, sum(each.jobs for each in groups), is_cut)


def _groups(connection: Connection, found: Range, size: int, since: Mapping[str, datetime]) -> Iterator[DeadGroup]:
    columns, values = DeadGroup._fields[:-2], {f"since_{name}": at for name, at in since.items()}
    for row in connection.execute(groups_statement(found, since), {**found.given(size), **values}).all():
        lately = dict(zip(since, map(int, row[len(columns) :]), strict=True))
        yield DeadGroup(**read_row(columns, row[: len(columns)]), lately=lately)


def merged_groups(groups: Iterable[DeadGroup]) -> list[DeadGroup]:
    """Groups of the same type and error are added up. Pure."""
    total: dict[tuple[str, str], DeadGroup] = {}
    for each in groups:
        known = total.get((each.type, each.error))
        total[each.type, each.error] = each if known is None else _sum(known, each)
    return list(total.values())


def _sum(one: DeadGroup, other: DeadGroup) -> DeadGroup:
    return one._replace(
        jobs=one.jobs + other.jobs,
        first_at=min(filter(None, (one.first_at, other.first_at)), default=None),
        last_at=max(filter(None, (one.last_at, other.last_at)), default=None),
        newest_id=max(one.newest_id, other.newest_id),
        lately={name: one.lately[name] + other.lately[name] for name in one.lately},
    )


def _with_messages(connection: Connection, groups: Sequence[DeadGroup]) -> list[DeadGroup]:
    ids = [each.newest_id for each in groups]
    messages = dict(connection.execute(messages_statement(), ids=ids).all()) if ids else {}
    return [each._replace(message=first_line(messages.get(each.newest_id))) for each in groups]


def groups_statement(found: Range, windows: Iterable[str]) -> str:
    lately = "".join(f", SUM(CASE WHEN died_at >= :since_{name} THEN 1 ELSE 0 END)" for name in windows)
    return (
        f"SELECT job_type, fingerprint, COUNT(*), MIN(died_at), MAX(died_at), MAX(job_id){lately}"
        f" FROM ({newest_dead(found)}) AS died GROUP BY job_type, fingerprint"
    )


def newest_dead(found: Range) -> str:
    """Each with the fingerprint of its last attempt."""
    newest = found.newest("id AS job_id, type AS job_type, finished_at AS died_at")
    # Not by id alone: PostgreSQL would go through the primary key from its end until it meets one of this job.
    last = "SELECT fingerprint FROM mayfly_attempts WHERE job_id = d.job_id ORDER BY id + 0 DESC LIMIT 1"
    # Not as a join: PostgreSQL would read all attempts there are for it.
    return f"SELECT d.*, COALESCE(({last}), '') AS fingerprint FROM ({newest}) AS d"


@cache
def messages_statement() -> str:
    return f"SELECT id, SUBSTR(last_error, 1, {ERROR_LIMIT}) FROM mayfly_jobs WHERE {{ids of id}}"
