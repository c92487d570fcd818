"""Lists of jobs, page by page: along an index, the newest first, and never further than is worth waiting for."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from mayfly.connection import Connection
from mayfly.dialect import Dialect
from mayfly.errors import BadField
from mayfly.jobs.browse.capped import facts_of, read_row
from mayfly.jobs.browse.fields import field_pattern, has_field, pattern, read_payloads
from mayfly.jobs.ranges import Position, Range, not_empty, position_of, position_text, read_position
from mayfly.jobs.which import Which, everything, ranges
from mayfly.schema import STATUSES, JobTable

SEARCHED = 10_000  # rows that one page may look at for what no index knows
LONGEST_PAGE = 1000
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


class Page(NamedTuple):
    jobs: tuple[JobLine, ...]
    next: str | None = None  # where the next page begins; None: there is no more
    is_cut: bool = False  # the search stopped before the page was full; the next one goes on from there

    def facts(self) -> dict[str, Any]:
        return {"jobs": [each.facts() for each in self.jobs], "next": self.next, "is_cut": self.is_cut}


def list_jobs(
    connection: Connection,
    jobs: JobTable,
    which: Which,
    text: str | None = None,
    size: int = 50,
    after: str | None = None,
    field: tuple[str, str] | None = None,
) -> Page:
    """`text` is looked for in payloads, errors and keys; `after` is the `next` of the page before.

    `field` is the name of a field that a payload has, at any depth, and its value as people write it.

    What an index knows is found at once. What it does not know is looked for in SEARCHED rows, and the next page
    goes on where this one has stopped.
    """
    if not 1 <= size <= LONGEST_PAGE:
        raise BadField("size", size, f"a whole number from 1 to {LONGEST_PAGE}")
    found = _ranges(connection, jobs, which.checked(), text, field)
    begin = read_position(connection.dialect, after, len(found[0].key)) if found and after is not None else None
    if any(each.also for each in found):
        found = not_empty(connection, found, begin)
    window = max(size, SEARCHED // max(1, len(found)))
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
        payloads = read_payloads(connection, jobs, ids)
        ids = [job_id for job_id in ids if has_field(payloads.get(job_id), *field)]
    lines = tuple(_lines(connection, jobs, ids))
    if len(known) > size:
        return Page(lines, position_text(known[size - 1][0]))
    return Page(lines, None if frontier is None else position_text(frontier), is_cut=frontier is not None)


def _ranges(
    connection: Connection, jobs: JobTable, which: Which, text: str | None, field: tuple[str, str] | None
) -> list[Range]:
    """Without a lane, a status, a group or an error it is the whole table, in the order of arrival."""
    given = {} if text is None else {"text": pattern(text)}
    given |= {} if field is None else {"field": field_pattern(*field)}
    if which == which._replace(ids=None, lane=None, status=None, group_key=None, error=None):
        found = [everything(jobs, which, given)]
    else:
        found = ranges(connection, jobs, which, OPEN, given)
    dialect = connection.dialect
    searches = [] if text is None else [f"({' OR '.join(_contains(dialect, jobs))})"]
    searches += [] if field is None else [f"LOWER({dialect.as_text(jobs.c.payload)}) LIKE :field ESCAPE '!'"]
    return [each._replace(also=" AND ".join(filter(None, (each.also, *searches)))) for each in found]


def _contains(dialect: Dialect, jobs: JobTable) -> Iterator[str]:
    c = jobs.c
    for column in (dialect.as_text(c.payload), c.last_error, c.type, c.unique_key, c.group_key):
        yield f"LOWER({column}) LIKE :text ESCAPE '!'"


def _lines(connection: Connection, jobs: JobTable, ids: Sequence[int]) -> Iterator[JobLine]:
    """In the order of the ids; one that was pruned meanwhile is left out."""
    if not ids:
        return
    rows = connection.execute(lines_statement(jobs), ids=ids).all()
    found = {row[0]: read_row(JobLine._fields, row) for row in rows}
    for job_id in ids:
        if job_id in found:
            line = found[job_id]
            yield JobLine(**{**line, "status": jobs.word_of(line["status"]), "error": one_line(line["error"])})


def one_line(error: str | None) -> str | None:
    return None if error is None else error.partition("\n")[0][:ERROR_SHOWN]


@cache
def lines_statement(jobs: JobTable) -> str:
    c = jobs.c
    error = f"SUBSTR({c.last_error}, 1, {ERROR_SHOWN})"
    columns = ", ".join(error if name == "error" else getattr(c, name) for name in JobLine._fields)
    return f"SELECT {columns} FROM {jobs.table} WHERE {{ids of {c.id}}}"
