"""Runners: those that are alive, and how the last ones ended."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.web import export
from console.web.export import MAX_EXPORTED
from console.web.page import Context, Viewer, render, url
from mayfly.admin.fleet import RunnerView, list_ended, list_runners
from mayfly.db.connection import Connection
from mayfly.queue.failure import storable

router = APIRouter()

PAGE_SIZE, MAX_LIVE = 50, 500
After = Annotated[str | None, Query(max_length=120)]


@router.get("/runners")
async def show(request: Request, context: Context, _user: Viewer, after: After = None) -> Response:
    live, ended = await context.read(_read, after and storable(after))
    next_url = url(request, "/runners", after=ended[PAGE_SIZE - 1].worker_id) if len(ended) > PAGE_SIZE else None
    first_url = url(request, "/runners") if after else None
    return render(
        request, "runners.html", live=live, ended=ended[:PAGE_SIZE], next_url=next_url, first_url=first_url,
        overdue=[each.worker_id for each in live if _is_overdue(each, context.now())],
    )  # fmt: skip


async def exported(context: Context) -> list[export.Facts]:
    return [each.facts() for each in await context.read(list_runners, MAX_EXPORTED)]


def _read(connection: Connection, after: str | None) -> tuple[list[RunnerView], list[RunnerView]]:
    live = [] if after else list_runners(connection, MAX_LIVE, live_only=True)
    return live, list_ended(connection, PAGE_SIZE + 1, after)


def _is_overdue(runner: RunnerView, now: datetime) -> bool:
    """Its lease has expired: the next cycle rescues its jobs."""
    return runner.lease_until < now


export.add_routes(router, "runners", exported)
