"""Cycles, one row per minute and host, with a row for each gap."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.export import MAX_EXPORTED
from console.web.page import Context, Viewer, render, url
from mayfly.admin.fleet import CyclesByMinute, Gap, is_overrun, list_minutes, read_regularity

router = APIRouter()

PAGE_SIZE = 60
Before = Annotated[int | None, Query(ge=0, le=2**62)]


@router.get("/cycles")
async def show(request: Request, context: Context, _user: Viewer, before: Before = None) -> Response:
    page, now = await _page(context, PAGE_SIZE, before), context.now()
    hours = await context.read(read_regularity, now)
    rows = [(each, isinstance(each, Gap), not isinstance(each, Gap) and is_overrun(each, now)) for each in page.rows]
    next_url = url(request, "/cycles", before=page.next) if page.next else None
    first_url = url(request, "/cycles") if before is not None else None
    return render(request, "cycles.html", rows=rows, hours=hours, next_url=next_url, first_url=first_url)


async def exported(context: Context) -> list[export.Facts]:
    return [each.facts() for each in (await _page(context, MAX_EXPORTED)).rows]


async def _page(context: ConsoleContext, size: int, before: int | None = None) -> CyclesByMinute:
    return await context.read(list_minutes, context.now(), size, before)


export.add_routes(router, "cycles", exported)
