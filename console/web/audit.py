"""What people did by hand, and why."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.page import Here, Viewer, render, url
from mayfly import admin
from mayfly.admin import AuditView

router = APIRouter()

SIZE, MOST_EXPORTED = 50, 10_000
Before = Annotated[int | None, Query(ge=0, le=2**62)]


@router.get("/audit")
async def show(request: Request, site: Here, _person: Viewer, before: Before = None) -> Response:
    found = await _deeds(site, SIZE + 1, before)
    deeds = found[:SIZE]
    next_url = url(request, "/audit", before=deeds[-1].id) if len(found) > SIZE else None
    first_url = url(request, "/audit") if before is not None else None
    return render(request, "audit.html", deeds=deeds, next_url=next_url, first_url=first_url)


@router.get("/audit.json")
async def as_json(site: Here, _person: Viewer) -> Response:
    return export.as_json("audit", [each.facts() for each in await _deeds(site, MOST_EXPORTED)])


@router.get("/audit.csv")
async def as_csv(site: Here, _person: Viewer) -> Response:
    return export.as_csv("audit", [each.facts() for each in await _deeds(site, MOST_EXPORTED)])


async def _deeds(site: ConsoleContext, size: int, before: int | None = None) -> list[AuditView]:
    return await site.look(lambda connection: admin.list_audit(connection, size, before))
