"""The cycles, one row a minute: a missed minute is a gap that is seen, an overrun stands out."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.page import Here, Viewer, now_of, render, url
from mayfly import admin
from mayfly.admin import CyclesByMinute, Gap, is_overrun

router = APIRouter()

SIZE, MOST_EXPORTED = 60, 10_000
Before = Annotated[int | None, Query(ge=0, le=2**62)]


@router.get("/cycles")
async def show(request: Request, site: Here, _person: Viewer, before: Before = None) -> Response:
    page, now = await _page(site, SIZE, before), now_of(site)
    hours = await site.look(lambda connection: admin.read_regularity(connection, now))
    rows = [(each, isinstance(each, Gap), not isinstance(each, Gap) and is_overrun(each, now)) for each in page.rows]
    next_url = url(request, "/cycles", before=page.next) if page.next else None
    first_url = url(request, "/cycles") if before is not None else None
    return render(request, "cycles.html", rows=rows, hours=hours, next_url=next_url, first_url=first_url)


@router.get("/cycles.json")
async def as_json(site: Here, _person: Viewer) -> Response:
    return export.as_json("cycles", [each.facts() for each in (await _page(site, MOST_EXPORTED)).rows])


@router.get("/cycles.csv")
async def as_csv(site: Here, _person: Viewer) -> Response:
    return export.as_csv("cycles", [each.facts() for each in (await _page(site, MOST_EXPORTED)).rows])


async def _page(site: ConsoleContext, size: int, before: int | None = None) -> CyclesByMinute:
    return await site.look(lambda connection: admin.list_minutes(connection, now_of(site), size, before))
