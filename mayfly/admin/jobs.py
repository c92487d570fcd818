"""Numbers that stop where it is no longer worth counting, and rows as JSON tells them. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
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
from mayfly.schema.tables import STATUSES

MAX_COUNTED = 10_000


class CappedCount(NamedTuple):
    number: int = 0
    is_more: bool = False  # the count stopped here

    @classmethod
    def of(cls, counted: int, cap: int) -> "CappedCount":
        """What was counted to one beyond the cap."""
        return cls(min(counted, cap), counted > cap)

    def __str__(self) -> str:
        return f"{self.number:,}+" if self.is_more else f"{self.number:,}"


def isoformat(at: datetime | None) -> str | None:
    """A time as JSON has it."""
    return None if at is None else at.astimezone(UTC).isoformat()


def facts_of(view: Any) -> dict[str, Any]:
    """A view's fields, with its times and numbers as JSON has them."""
    facts: dict[str, Any] = {}
    for name, value in view._asdict().items():
        if isinstance(value, CappedCount):
            facts |= {name: value.number, f"{name}_is_capped": value.is_more}
        else:
            facts[name] = isoformat(value) if isinstance(value, datetime) else value
    return facts


def read_row(names: Sequence[str], row: Sequence[Any]) -> Mapping[str, Any]:
    """A row by the names of its columns; what ends in _at or _until is a time."""
    return {name: _read(name, value) for name, value in zip(names, row, strict=True)}


def _read(name: str, value: Any) -> Any:
    is_time = name.endswith(("_at", "_until"))
    return utc_from_driver(value) if is_time and value is not None else value


MAX_ROWS_SEARCHED = 10_000  # rows that one page may look at for what no index knows
MAX_PAGE_SIZE = 1000
ERROR_SHOWN = 200
OPEN = dict.fromkeys(STATUSES, "")

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
    next: str | None = None  # where the next page begins; None: there is no more
    is_cut: bool = False  # the search stopped before the page was full; the next one goes on from there

    def facts(self) -> dict[str, Any]:
        return {"jobs": [each.facts() for each in self.jobs], "next": self.next, "is_cut": self.is_cut}


def list_jobs(
    connection: Connection,
    which: JobFilter,
    text: str | None = None,
    size: int = 50,
    after: str | None = None,
    field: tuple[str, str] | None = None,
) -> JobPage:
    """`text` is looked for in payloads, errors and keys; `after` is the `next` of the page before.

    `field` is the name of a field that a payload has, at any depth, and its value as people write it.

    What an index knows is found at once. What it does not know is looked for in SEARCHED rows, and the next page
    goes on where this one has stopped.
    """
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise BadField("size", size, f"a whole number from 1 to {MAX_PAGE_SIZE}")
    found = _ranges(connection, which.checked(), text, field)
    begin = read_position(connection.dialect, after, len(found[0].key)) if found and after is not None else None
    if any(each.also for each in found):
        found = not_empty(connection, found, begin)
    window = max(size, MAX_ROWS_SEARCHED // max(1, len(found)))
    hits: list[Hit] = []
    frontier: Position | None = None
    for each in found:
        floor = each.floor(connection, window, begin) if each.also else None
        rows = each.find(connection, size + 1, begin, newest_first=True, floor=floor)
        hits += [(position_of(row), row[0]) for row in rows]
        if floor is not None and len(rows) <= size and (frontier is None or floor > frontier):
            frontier = floor  # what lies below was not looked at in every range
    known = sorted((hit for hit in hits if frontier is None or hit[0] >= frontier), reverse=True)
    ids = [job_id for _position, job_id in known[:size]]
    if field is not None:
        payloads = read_payloads(connection, ids)
        ids = [job_id for job_id in ids if has_field(payloads.get(job_id), *field)]
    lines = tuple(_lines(connection, ids))
    if len(known) > size:
        return JobPage(lines, position_text(known[size - 1][0]))
    return JobPage(lines, None if frontier is None else position_text(frontier), is_cut=frontier is not None)


def _ranges(connection: Connection, which: JobFilter, text: str | None, field: tuple[str, str] | None) -> list[Range]:
    """Without a lane, a status, a group or an error it is the whole table, in the order of arrival."""
    given = {} if text is None else {"text": pattern(text)}
    given |= {} if field is None else {"field": field_pattern(*field)}
    if which == which._replace(ids=None, lane=None, status=None, group_key=None, error=None):
        found = [all_jobs(which, given)]
    else:
        found = ranges(connection, which, OPEN, given)
    dialect = connection.dialect
    searches = [] if text is None else [f"({' OR '.join(_contains(dialect))})"]
    searches += [] if field is None else [f"LOWER({dialect.as_text('payload')}) LIKE :field ESCAPE '!'"]
    return [each._replace(also=" AND ".join(filter(None, (each.also, *searches)))) for each in found]


def _contains(dialect: Dialect) -> Iterator[str]:
    for column in (dialect.as_text("payload"), "last_error", "type", "unique_key", "group_key"):
        yield f"LOWER({column}) LIKE :text ESCAPE '!'"


def _lines(connection: Connection, ids: Sequence[int]) -> Iterator[JobLine]:
    """In the order of the ids; one that was pruned meanwhile is left out."""
    if not ids:
        return
    rows = connection.execute(lines_statement(), ids=ids).all()
    found = {row[0]: read_row(JobLine._fields, row) for row in rows}
    for job_id in ids:
        if job_id in found:
            line = found[job_id]
            yield JobLine(**{**line, "status": line["status"], "error": one_line(line["error"])})


def one_line(error: str | None) -> str | None:
    return None if error is None else error.partition("\n")[0][:ERROR_SHOWN]


@cache
def lines_statement() -> str:
    error = f"SUBSTR(last_error, 1, {ERROR_SHOWN})"
    columns = ", ".join(error if name == "error" else name for name in JobLine._fields)
    return f"SELECT {columns} FROM mayfly_jobs WHERE {{ids of id}}"


COUNTED = 1000  # of each status: every page of jobs shows them
LANES_PER_STATEMENT = 40


def count_statuses(connection: Connection, which: JobFilter) -> Mapping[str, CappedCount]:
    """Of those of a lane, of a group or of all; empty where more is asked for than an index knows."""
    asked = which._replace(status=None)
    if asked == JobFilter(group_key=which.group_key) and which.group_key is not None:
        return _group(connection, which.group_key)
    if asked != JobFilter(lane=which.lane):
        return {}
    lanes = [which.lane] if which.lane is not None else find_lanes(connection)
    counted: Counter[str] = Counter()
    for start in range(0, len(lanes), LANES_PER_STATEMENT):
        part = lanes[start : start + LANES_PER_STATEMENT]
        left = tuple(status for status in STATUSES if counted[status] <= COUNTED)
        values = {f"lane_{number}": lane for number, lane in enumerate(part)}
        rows = connection.execute(lanes_statement(len(part), left), values).all() if left else ()
        for number, figure in rows:
            counted[STATUSES[number]] += int(figure)
    return {status: CappedCount.of(counted[status], COUNTED) for status in STATUSES}


def _group(connection: Connection, key: str) -> Mapping[str, CappedCount]:
    """Of its newest: it may have a million."""
    rows = connection.execute(group_statement(), {"key": key, "size": COUNTED + 1}).all()
    counted = {status: int(number) for status, number in rows}
    is_more = sum(counted.values()) > COUNTED
    return {status: CappedCount(counted.get(status, 0), is_more) for status in STATUSES}


@cache
def lanes_statement(lanes: int, statuses: tuple[str, ...]) -> str:
    order = "priority, run_at, id"  # that of the index
    parts = []
    for number in range(lanes):
        for status in statuses:
            where = f"lane = :lane_{number} AND status = '{status}'"
            look = f"SELECT id FROM mayfly_jobs WHERE {where} ORDER BY {order} LIMIT {COUNTED + 1}"
            index = STATUSES.index(status)
            parts.append(f"SELECT {index}, COUNT(*) FROM ({look}) AS counted_{number}_{index}")
    return " UNION ALL ".join(parts)


@cache
def group_statement() -> str:
    newest = "SELECT status FROM mayfly_jobs WHERE group_key = :key ORDER BY id DESC LIMIT :size"
    return f"SELECT status, COUNT(*) FROM ({newest}) AS newest GROUP BY status"
