"""The list of jobs: by status, filtered by its address, page by page, and as a file."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from console.site import Site
from console.web.filters import JobFilter, filter_of
from console.web.page import Here, Viewer, now_of, render, url
from console.web.redact import Redactor, of_payload
from mayfly import jsontext
from mayfly.connection import Connection
from mayfly.errors import BadField, UsageError
from mayfly.jobs import browse
from mayfly.jobs.browse import Capped, JobLine, Page
from mayfly.schema import CANCELLED, DEAD, JOBS, PENDING, PROCESSING, STATUSES

router = APIRouter()

SIZE = 50
MOST_EXPORTED = 10_000
EXPORTED_AT_ONCE = 500
OFFERED = {
    "": ("retry", "cancel", "discard", "delay"),
    PENDING: ("cancel", "delay", "retry"),
    PROCESSING: ("cancel",),
    DEAD: ("retry", "discard"),
    CANCELLED: ("retry",),
}
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for one


class Tab(NamedTuple):
    status: str
    address: str
    number: Capped | None
    is_here: bool


@router.get("/jobs")
async def show(request: Request, site: Here, _person: Viewer, after: str | None = None) -> Response:
    meant, now = filter_of(request.query_params), now_of(site)
    try:
        page, counted = await site.look(lambda connection: _look(connection, site, meant, now, after))
        wrong = None
    except UsageError as error:
        page, counted, wrong = Page(()), {}, str(error)
    return render(
        request, "jobs.html", 422 if wrong else 200, meant=meant, page=page, wrong=wrong,
        tabs=_tabs(request, meant, counted),
        verbs=OFFERED.get(meant.status, ()), searched=browse.SEARCHED,
        types=sorted(site.producer.registry.handlers),
        next_url=page.next and url(request, "/jobs", **meant.query, after=page.next),
        first_url=after and url(request, "/jobs", **meant.query),
    )  # fmt: skip


def _tabs(request: Request, meant: JobFilter, counted: Mapping[str, Capped]) -> list[Tab]:
    addresses = {each: url(request, "/jobs", **meant._replace(status=each).query) for each in ("", *STATUSES)}
    return [Tab(each, address, counted.get(each), each == meant.status) for each, address in addresses.items()]


@router.get("/jobs.csv")
async def as_csv(request: Request, site: Here, _person: Viewer) -> Response:
    lines = await site.run(_export, site, filter_of(request.query_params))
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(JobLine._fields)
    writer.writerows([_cell(value) for value in each.facts().values()] for each in lines)
    return _file(written.getvalue(), "text/csv; charset=utf-8", "jobs.csv")


@router.get("/jobs.json")
async def as_json(request: Request, site: Here, _person: Viewer) -> Response:
    lines = await site.run(_export, site, filter_of(request.query_params))
    return _file(json.dumps([each.facts() for each in lines], indent=1), "application/json", "jobs.json")


def _look(
    connection: Connection, site: Site, meant: JobFilter, now: datetime, after: str | None, size: int = SIZE
) -> tuple[Page, Any]:
    page = read_page(connection, site, meant, now, after, size)
    is_bare = not meant.looks_inside
    return page, browse.count_statuses(connection, JOBS, meant.which(now)) if is_bare else {}


def read_page(
    connection: Connection, site: Site, meant: JobFilter, now: datetime, after: str | None, size: int
) -> Page:
    """What is hidden is not found either: a search would tell it letter by letter."""
    hidden = site.settings.redact
    if meant.field.lower() in hidden:
        raise BadField("field", meant.field, "one that is shown: REDACT names this one")
    page = browse.list_jobs(connection, JOBS, meant.which(now), meant.text or None, size, after or None, meant.inside)
    return page._replace(jobs=tuple(_shown(connection, hidden, page.jobs, meant.text)))


def _shown(connection: Connection, hidden: Sequence[str], lines: Sequence[JobLine], text: str) -> Iterator[JobLine]:
    wanted = [each.id for each in lines if text or each.error]
    payloads = browse.read_payloads(connection, JOBS, wanted) if hidden else {}
    for each in lines:
        if each.id not in payloads:
            yield each
            continue
        redactor = of_payload(hidden, payloads[each.id])
        line = each._replace(error=redactor.text(each.error))
        if not text or _may_be_found(line, redactor, payloads[each.id], text):
            yield line


def _may_be_found(line: JobLine, redactor: Redactor, payload: str, text: str) -> bool:
    """Whether what is shown has the text; where nothing is hidden, what was found is."""
    try:
        value = jsontext.decode(payload)
    except ValueError:
        return False
    shown = redactor.value(value)
    told = (json.dumps(shown, ensure_ascii=False), line.error or "", line.type, line.group_key or "")
    return shown == value or any(text.lower() in each.lower() for each in told)


def _export(site: Site, meant: JobFilter) -> list[JobLine]:
    now, after = now_of(site), None
    lines: list[JobLine] = []
    while len(lines) < MOST_EXPORTED:
        look = partial(read_page, site=site, meant=meant, now=now, after=after, size=EXPORTED_AT_ONCE)
        page = site.database.read(look)
        lines += page.jobs
        after = page.next
        if after is None or page.is_cut:
            break
    return lines[:MOST_EXPORTED]


def _cell(value: Any) -> Any:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def _file(content: str, media_type: str, name: str) -> Response:
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})
