"""The list of jobs: by status, filtered by its address, page by page, and as a file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.filters import PageFilter, filter_of
from console.web.page import Here, Viewer, now_of, render, url
from console.web.redact import Redactor, of_payload
from mayfly import admin, json_text
from mayfly.admin import CappedCount, JobLine, JobPage
from mayfly.db.connection import Connection
from mayfly.errors import BadField, UsageError
from mayfly.schema.tables import CANCELLED, DEAD, PENDING, PROCESSING, STATUSES

router = APIRouter()

SIZE = 50
MAX_EXPORTED = 10_000
EXPORTED_AT_ONCE = 500
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
    number: CappedCount | None
    is_here: bool


@router.get("/jobs")
async def show(request: Request, site: Here, _person: Viewer, after: str | None = None) -> Response:
    meant, now = filter_of(request.query_params), now_of(site)
    try:
        page, counted = await site.look(lambda connection: _read(connection, site, meant, now, after))
        wrong = None
    except UsageError as error:
        page, counted, wrong = JobPage(()), {}, str(error)
    return render(
        request, "jobs.html", 422 if wrong else 200, meant=meant, page=page, wrong=wrong,
        tabs=_tabs(request, meant, counted),
        verbs=OFFERED.get(meant.status, ()), searched=admin.MAX_ROWS_SEARCHED,
        types=sorted(site.producer.registry.handlers),
        next_url=page.next and url(request, "/jobs", **meant.query, after=page.next),
        first_url=after and url(request, "/jobs", **meant.query),
    )  # fmt: skip


def _tabs(request: Request, meant: PageFilter, counted: Mapping[str, CappedCount]) -> list[Tab]:
    addresses = {each: url(request, "/jobs", **meant._replace(status=each).query) for each in ("", *STATUSES)}
    return [Tab(each, address, counted.get(each), each == meant.status) for each, address in addresses.items()]


@router.get("/jobs.csv")
async def as_csv(request: Request, site: Here, _person: Viewer) -> Response:
    lines = await site.run(_export, site, filter_of(request.query_params))
    return export.as_csv("jobs", [each.facts() for each in lines])


@router.get("/jobs.json")
async def as_json(request: Request, site: Here, _person: Viewer) -> Response:
    lines = await site.run(_export, site, filter_of(request.query_params))
    return export.as_json("jobs", [each.facts() for each in lines])


def _read(
    connection: Connection,
    site: ConsoleContext,
    meant: PageFilter,
    now: datetime,
    after: str | None,
    size: int = SIZE,
) -> tuple[JobPage, Any]:
    page = read_page(connection, site, meant, now, after, size)
    is_bare = not meant.looks_inside
    return page, admin.count_statuses(connection, meant.which(now)) if is_bare else {}


def read_page(
    connection: Connection, site: ConsoleContext, meant: PageFilter, now: datetime, after: str | None, size: int
) -> JobPage:
    """What is hidden is not found either: a search would tell it letter by letter."""
    hidden = site.settings.redact
    if meant.field.lower() in hidden:
        raise BadField("field", meant.field, "one that is shown: REDACT names this one")
    page = admin.list_jobs(connection, meant.which(now), meant.text or None, size, after or None, meant.inside)
    return page._replace(jobs=tuple(_shown(connection, hidden, page.jobs, meant.text)))


def _shown(connection: Connection, hidden: Sequence[str], lines: Sequence[JobLine], text: str) -> Iterator[JobLine]:
    wanted = [each.id for each in lines if text or each.error]
    payloads = admin.read_payloads(connection, wanted) if hidden else {}
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
        value = json_text.decode(payload)
    except ValueError:
        return False
    shown = redactor.value(value)
    told = (json.dumps(shown, ensure_ascii=False), line.error or "", line.type, line.group_key or "")
    return shown == value or any(text.lower() in each.lower() for each in told)


def _export(site: ConsoleContext, meant: PageFilter) -> list[JobLine]:
    now, after = now_of(site), None
    lines: list[JobLine] = []
    while len(lines) < MAX_EXPORTED:
        look = partial(read_page, site=site, meant=meant, now=now, after=after, size=EXPORTED_AT_ONCE)
        page = site.database.read(look)
        lines += page.jobs
        after = page.next
        if after is None or page.is_cut:
            break
    return lines[:MAX_EXPORTED]
