"""Lists of jobs by status and filter, as pages and as files; dead jobs by type and error."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.export import MAX_EXPORTED
from console.web.filters import PageFilter, filter_of
from console.web.page import Context, Viewer, render, url, without_empty_parameters
from console.web.redact import read_redactors
from mayfly.admin.filters import MAX_ROWS_SEARCHED, JobFilter
from mayfly.admin.jobs import (
    WINDOWS,
    CappedCount,
    DeadGroups,
    JobLine,
    JobPage,
    count_statuses,
    facts_of,
    list_dead,
    list_jobs,
    newest,
    read_lines,
)
from mayfly.db.connection import Connection
from mayfly.errors import UsageError
from mayfly.monitoring.redact import Redactor
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, STATUSES

router = APIRouter()

PAGE_SIZE = 50
EXPORT_PAGE_SIZE = 500
MAX_DEAD_READ = 2_000  # keeps the response below 100 ms
OFFERED = {
    "": ("retry", "cancel", "discard", "delay"),
    PENDING: ("cancel", "delay", "retry"),
    PROCESSING: ("cancel",),
    DEAD: ("retry", "discard"),
    CANCELLED: ("retry",),
}


class Tab(NamedTuple):
    status: str
    address: str
    jobs: CappedCount | None
    is_current: bool


class JobSearch(NamedTuple):
    """The jobs of a page, with secrets masked.

    A search does not match masked values either: it would reveal them letter by letter.
    """

    page_filter: PageFilter
    redacted: Sequence[str]
    now: datetime

    @property
    def job_filter(self) -> JobFilter:
        return self.page_filter.job_filter(self.now).without(self.redacted)

    def read(self, connection: Connection, after: str | None, size: int = PAGE_SIZE) -> JobPage:
        page = list_jobs(connection, self.job_filter, size, after or None)
        return page._replace(jobs=tuple(self._masked(connection, page.jobs))) if self.redacted else page

    def visible(self, connection: Connection, ids: Sequence[int]) -> Sequence[int]:
        """For actions on all matching jobs."""
        if not self.redacted or self.job_filter.text is None:
            return ids
        return [each.id for each in self._masked(connection, [*read_lines(connection, ids)])]

    def count_by_status(self, connection: Connection) -> Mapping[str, CappedCount]:
        """Empty if counting would have to search the content of all jobs."""
        return count_statuses(connection, self.job_filter)

    def _masked(self, connection: Connection, lines: Sequence[JobLine]) -> Iterator[JobLine]:
        text = self.job_filter.text
        redactors = read_redactors(
            connection, self.redacted, [each.id for each in lines if text or each.error or each.progress]
        )
        for each in lines:
            redactor = redactors.get(each.id)
            line = each if redactor is None else _masked_line(each, redactor)
            if redactor is None or not text or _is_found(line, redactor, text):
                yield line


def _masked_line(line: JobLine, redactor: Redactor) -> JobLine:
    return line._replace(error=redactor.text(line.error), progress=redactor.value(line.progress))


def _is_found(line: JobLine, redactor: Redactor, text: str) -> bool:
    """Whether the text still matches after masking."""
    masked = redactor.value(redactor.payload)
    searched = (json.dumps(masked, ensure_ascii=False), line.error or "", line.type, line.group_key or "")
    is_unmasked = redactor.payload is not None and masked == redactor.payload
    return is_unmasked or any(text.lower() in each.lower() for each in searched)


@router.get("/jobs")
async def show(request: Request, context: Context, _user: Viewer, after: str | None = None) -> Response:
    if (cleaned := without_empty_parameters(request)) is not None:
        return cleaned
    search, error = _search(request, context), None
    page = JobPage(())
    counts: Mapping[str, CappedCount] = {}
    try:
        page, counts = await context.read(search.read, after), await context.read(search.count_by_status)
    except UsageError as wrong:
        error = str(wrong)
    page_filter = search.page_filter
    return render(
        request, "jobs.html", 422 if error else 200, page_filter=page_filter, page=page, error=error,
        tabs=_tabs(request, page_filter, counts),
        verbs=OFFERED.get(page_filter.status, ()), searched=MAX_ROWS_SEARCHED,
        types=sorted(context.registry.handlers), sources=sorted(context.settings.sources),
        next_url=page.next and url(request, "/jobs", **page_filter.query, after=page.next),
        first_url=after and url(request, "/jobs", **page_filter.query),
    )  # fmt: skip


def _search(request: Request, context: ConsoleContext) -> JobSearch:
    return JobSearch(filter_of(request.query_params), context.settings.redact, context.now())


def _tabs(request: Request, page_filter: PageFilter, counts: Mapping[str, CappedCount]) -> list[Tab]:
    addresses = {each: url(request, "/jobs", **page_filter._replace(status=each).query) for each in ("", *STATUSES)}
    return [Tab(each, address, counts.get(each), each == page_filter.status) for each, address in addresses.items()]


async def exported(request: Request, context: Context) -> list[export.Facts]:
    search, after = _search(request, context), None
    lines: list[JobLine] = []
    while len(lines) < MAX_EXPORTED:
        page = await context.read(search.read, after, EXPORT_PAGE_SIZE)
        lines += page.jobs
        after = page.next
        if after is None or page.is_cut:
            break
    return [facts_of(each) for each in lines[:MAX_EXPORTED]]


export.add_routes(router, "jobs", exported)


@router.get("/dead")
async def show_dead(request: Request, context: Context, _user: Viewer, lane: str = "") -> Response:
    dead = await context.read(_read_dead, context, lane or None)
    return render(request, "dead.html", dead=dead, lane=lane, windows=list(WINDOWS))


def _read_dead(connection: Connection, context: ConsoleContext, lane: str | None) -> DeadGroups:
    """Secrets in the payload of a group's newest job are masked in the group's error message."""
    found = list_dead(connection, lane, context.now(), newest, MAX_DEAD_READ)
    redactors = read_redactors(connection, context.settings.redact, [each.newest_id for each in found.groups])
    groups = (each._replace(message=redactors[each.newest_id].text(each.message)) for each in found.groups)
    return found._replace(groups=tuple(groups))
