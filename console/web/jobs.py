"""The list of jobs: by status, filtered by its address, page by page, and as a file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.export import MAX_EXPORTED
from console.web.filters import PageFilter, filter_of
from console.web.page import Context, Viewer, render, url
from console.web.redact import Redactor, for_payload
from mayfly import json_text
from mayfly.admin.filters import read_payloads
from mayfly.admin.jobs import MAX_ROWS_SEARCHED, CappedCount, JobLine, JobPage, count_statuses, list_jobs
from mayfly.db.connection import Connection
from mayfly.errors import BadField, UsageError
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, STATUSES

router = APIRouter()

PAGE_SIZE = 50
EXPORT_PAGE_SIZE = 500
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


@router.get("/jobs")
async def show(request: Request, context: Context, _user: Viewer, after: str | None = None) -> Response:
    page_filter, now, error = filter_of(request.query_params), context.now(), None
    page, counts = JobPage(()), dict[str, CappedCount]()
    try:
        page, counts = await context.read(_read_with_counts, context, page_filter, now, after)
    except UsageError as wrong:
        error = str(wrong)
    return render(
        request, "jobs.html", 422 if error else 200, page_filter=page_filter, page=page, error=error,
        tabs=_tabs(request, page_filter, counts),
        verbs=OFFERED.get(page_filter.status, ()), searched=MAX_ROWS_SEARCHED,
        types=sorted(context.registry.handlers),
        next_url=page.next and url(request, "/jobs", **page_filter.query, after=page.next),
        first_url=after and url(request, "/jobs", **page_filter.query),
    )  # fmt: skip


def _tabs(request: Request, page_filter: PageFilter, counts: Mapping[str, CappedCount]) -> list[Tab]:
    addresses = {each: url(request, "/jobs", **page_filter._replace(status=each).query) for each in ("", *STATUSES)}
    return [Tab(each, address, counts.get(each), each == page_filter.status) for each, address in addresses.items()]


def _read_with_counts(
    connection: Connection, context: ConsoleContext, page_filter: PageFilter, now: datetime, after: str | None
) -> tuple[JobPage, dict[str, CappedCount]]:
    page = read_page(connection, context, page_filter, now, after, PAGE_SIZE)
    if page_filter.searches_content:
        return page, {}
    return page, dict(count_statuses(connection, page_filter.job_filter(now)))


def read_page(
    connection: Connection,
    context: ConsoleContext,
    page_filter: PageFilter,
    now: datetime,
    after: str | None,
    size: int,
) -> JobPage:
    """With secrets masked. A search does not find them either, or it would reveal them letter by letter."""
    redacted = context.settings.redact
    if page_filter.field.lower() in redacted:
        raise BadField("field", page_filter.field, "a field that is shown; this one is named in REDACT")
    job_filter, text, field = page_filter.job_filter(now), page_filter.text, page_filter.payload_field
    page = list_jobs(connection, job_filter, text or None, size, after or None, field)
    return page._replace(jobs=tuple(_redacted(connection, redacted, page.jobs, text)))


def _redacted(
    connection: Connection, fields: Sequence[str], lines: Sequence[JobLine], text: str
) -> Iterator[JobLine]:
    needed = [each.id for each in lines if text or each.error]
    payloads = read_payloads(connection, needed) if fields else {}
    for each in lines:
        if each.id not in payloads:
            yield each
            continue
        redactor = for_payload(fields, payloads[each.id])
        line = each._replace(error=redactor.text(each.error))
        if not text or _matches_redacted(line, redactor, payloads[each.id], text):
            yield line


def _matches_redacted(line: JobLine, redactor: Redactor, payload: str, text: str) -> bool:
    """Whether the text is still found after masking; if nothing was masked, it is."""
    try:
        value = json_text.decode(payload)
    except ValueError:
        return False
    masked = redactor.value(value)
    searched = (json.dumps(masked, ensure_ascii=False), line.error or "", line.type, line.group_key or "")
    return masked == value or any(text.lower() in each.lower() for each in searched)


async def exported(request: Request, context: Context) -> list[export.Facts]:
    lines = await context.run(_read_all, context, filter_of(request.query_params))
    return [each.facts() for each in lines]


def _read_all(context: ConsoleContext, page_filter: PageFilter) -> list[JobLine]:
    now, after = context.now(), None
    lines: list[JobLine] = []
    while len(lines) < MAX_EXPORTED:
        query = partial(
            read_page, context=context, page_filter=page_filter, now=now, after=after, size=EXPORT_PAGE_SIZE
        )
        page = context.database.read(query)
        lines += page.jobs
        after = page.next
        if after is None or page.is_cut:
            break
    return lines[:MAX_EXPORTED]


export.add_routes(router, "jobs", exported)
