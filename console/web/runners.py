"""The runners: who is alive, what the others did, and how they ended."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.page import Here, Viewer, now_of, render, url
from mayfly import admin
from mayfly.admin import RunnerView
from mayfly.db.connection import Connection
from mayfly.queue.failure import storable

router = APIRouter()

SIZE, MOST_LIVE, MOST_EXPORTED = 50, 500, 10_000
After = Annotated[str | None, Query(max_length=120)]


@router.get("/runners")
async def show(request: Request, site: Here, _person: Viewer, after: After = None) -> Response:
    live, ended = await site.look(lambda connection: _read(connection, after and storable(after)))
    next_url = url(request, "/runners", after=ended[SIZE - 1].worker_id) if len(ended) > SIZE else None
    first_url = url(request, "/runners") if after else None
    return render(
        request, "runners.html", live=live, ended=ended[:SIZE], next_url=next_url, first_url=first_url,
        overdue=[each.worker_id for each in live if _is_overdue(each, now_of(site))],
    )  # fmt: skip


@router.get("/runners.json")
async def as_json(site: Here, _person: Viewer) -> Response:
    return export.as_json("runners", [each.facts() for each in await _all(site)])


@router.get("/runners.csv")
async def as_csv(site: Here, _person: Viewer) -> Response:
    return export.as_csv("runners", [each.facts() for each in await _all(site)])


async def _all(site: ConsoleContext) -> list[RunnerView]:
    return await site.look(lambda connection: admin.list_runners(connection, MOST_EXPORTED))


def _read(connection: Connection, after: str | None) -> tuple[list[RunnerView], list[RunnerView]]:
    live = [] if after else admin.list_runners(connection, MOST_LIVE, live_only=True)
    return live, admin.list_ended(connection, SIZE + 1, after)


def _is_overdue(runner: RunnerView, now: datetime) -> bool:
    """Nobody has heard of it for longer than it said: its jobs are rescued by the next cycle."""
    return runner.lease_until < now
