"""Screens with one list, as pages and as files: cycles, runners, limits, sources, audit and settings."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi import Path as PathParameter

from console.web import export
from console.web.export import MAX_EXPORTED
from console.web.page import Admin, Context, Viewer, render, url, without_empty_parameters
from mayfly.admin.auth import list_audit
from mayfly.admin.filters import MAX_ID
from mayfly.admin.fleet import Gap, is_overrun, list_ended, list_minutes, list_runners, read_regularity, read_runner
from mayfly.admin.jobs import facts_of
from mayfly.admin.lanes import limits_page, list_limits, used_up
from mayfly.admin.sources import list_sources
from mayfly.db.connection import Connection
from mayfly.errors import SettingsError, UnknownName
from mayfly.queue.outcome import storable
from mayfly.schema.tables import KEY_LENGTH
from mayfly.settings import load
from mayfly.settings.sources import DEFAULT

router = APIRouter()

PAGE_SIZE = 50
MAX_ON_TOP = 500  # live runners and used-up limits, which the first page begins with

BeforeId = Annotated[int | None, Query(ge=0, le=MAX_ID)]
RunnerId = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9-]{1,64}$")]
AfterRunner = Annotated[str, Query(max_length=120)]
FirstKey = Annotated[str, Query(alias="from", max_length=KEY_LENGTH)]


@router.get("/cycles")
async def cycles(request: Request, context: Context, _user: Viewer, before: BeforeId = None) -> Response:
    """One row per minute and host, and a row for each gap."""
    now = context.now()
    page = await context.read(list_minutes, now, PAGE_SIZE, before)
    hours = await context.read(read_regularity, now)
    rows = [(each, isinstance(each, Gap), not isinstance(each, Gap) and is_overrun(each, now)) for each in page.rows]
    return _page(request, "cycles", {"before": page.next}, before is None, rows=rows, hours=hours)


@router.get("/runners")
async def runners(request: Request, context: Context, _user: Viewer, after: AfterRunner = "") -> Response:
    live = [] if after else await context.read(list_runners, MAX_ON_TOP, live_only=True)
    ended, is_more = _cut(await context.read(list_ended, PAGE_SIZE + 1, storable(after) or None))
    following = {"after": ended[-1].worker_id if is_more else None}
    return _page(request, "runners", following, not after, live=live, ended=ended)


@router.get("/runners/{worker_id}")
async def runner(request: Request, context: Context, _user: Viewer, worker_id: RunnerId) -> Response:
    try:
        view = await context.read(read_runner, storable(worker_id), context.settings.redact)
    except UnknownName as error:
        raise HTTPException(404, str(error)) from error
    return render(request, "runner.html", view=view)


@router.get("/limits")
async def limits(request: Request, context: Context, _user: Viewer, first: FirstKey = "") -> Response:
    if (cleaned := without_empty_parameters(request)) is not None:
        return cleaned
    now = context.now()
    full = [] if first else await context.read(used_up, now, MAX_ON_TOP)
    page, following = await context.read(limits_page, now, PAGE_SIZE, storable(first.strip()))
    return _page(request, "limits", {"from": following}, not first, full=full, page=page, first=first)


@router.get("/sources")
async def sources(request: Request, context: Context, _user: Viewer) -> Response:
    return render(request, "sources.html", sources=await context.read(list_sources, context.settings, context.now()))


async def exported_sources(context: Context) -> list[export.Facts]:
    return [facts_of(each) for each in await context.read(list_sources, context.settings, context.now())]


@router.get("/audit")
async def audit(request: Request, context: Context, _user: Viewer, before: BeforeId = None) -> Response:
    entries, is_more = _cut(await context.read(list_audit, PAGE_SIZE + 1, before))
    following = {"before": entries[-1].id if is_more else None}
    return _page(request, "audit", following, before is None, entries=entries)


@router.get("/settings")
async def settings(request: Request, context: Context, _user: Admin, given: bool = False) -> Response:
    """Read for every request, as in every cycle; `given` hides settings with their default."""
    try:
        loaded = await context.run(load)
    except SettingsError as error:
        return render(request, "settings.html", origins=[], given=given, warnings=[], errors=str(error).splitlines())
    origins = [each for each in loaded.origins if not given or each.source != DEFAULT]
    return render(request, "settings.html", origins=origins, given=given, warnings=loaded.warnings, errors=[])


async def exported_settings(context: Context) -> list[export.Facts]:
    return [asdict(each) for each in (await context.run(load)).origins]


def _page(request: Request, name: str, following: Mapping[str, Any], is_first: bool, **values: Any) -> Response:
    """`following` is the query parameter of the next page; its value is None on the last page."""
    next_url = None if None in following.values() else url(request, f"/{name}", **following)
    first_url = None if is_first else url(request, f"/{name}")
    return render(request, f"{name}.html", next_url=next_url, first_url=first_url, **values)


def _cut(found: list[Any]) -> tuple[list[Any], bool]:
    """Return a page and whether there is another one: a page plus one row was read."""
    return found[:PAGE_SIZE], len(found) > PAGE_SIZE


def _export(name: str, query: Callable[[Connection, datetime], Iterable[Any]]) -> None:
    async def rows(context: Context) -> list[export.Facts]:
        return await context.read(lambda connection: [facts_of(each) for each in query(connection, context.now())])

    export.add_routes(router, name, rows)


_export("cycles", lambda connection, now: list_minutes(connection, now, MAX_EXPORTED).rows)
_export("runners", lambda connection, _now: list_runners(connection, MAX_EXPORTED))
_export("limits", list_limits)
_export("audit", lambda connection, _now: list_audit(connection, MAX_EXPORTED))
export.add_routes(router, "sources", exported_sources)
export.add_routes(router, "settings", exported_settings, Admin)
