"""The audit: manual actions with user, interface and reason."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.web import export
from console.web.export import MAX_EXPORTED
from console.web.page import Context, Viewer, render, url
from mayfly.admin.audit import list_audit

router = APIRouter()

PAGE_SIZE = 50
Before = Annotated[int | None, Query(ge=0, le=2**62)]


@router.get("/audit")
async def show(request: Request, context: Context, _user: Viewer, before: Before = None) -> Response:
    found = await context.read(list_audit, PAGE_SIZE + 1, before)
    entries = found[:PAGE_SIZE]
    next_url = url(request, "/audit", before=entries[-1].id) if len(found) > PAGE_SIZE else None
    first_url = url(request, "/audit") if before is not None else None
    return render(request, "audit.html", entries=entries, next_url=next_url, first_url=first_url)


async def exported(context: Context) -> list[export.Facts]:
    return [each.facts() for each in await context.read(list_audit, MAX_EXPORTED)]


export.add_routes(router, "audit", exported)
