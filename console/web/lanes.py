"""Lanes: backlog, runners, limits, pools and pauses; pause, resume and set the number of runners."""

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.web.filters import parse_until
from console.web.page import Context, Operator, Viewer, plural, redirect, render
from mayfly.admin.lanes import MAX_WORKERS_SETTABLE, LaneView, end_pause, list_lanes, set_max_workers, start_pause
from mayfly.db.connection import Connection
from mayfly.errors import BadField
from mayfly.queue.pauses import LANE, TYPE, Pauses, load_pauses
from mayfly.settings import Settings

router = APIRouter()

Text = Annotated[str, Form(max_length=500)]


class PoolView(NamedTuple):
    name: str
    cap: int
    lanes: Sequence[str]
    runners: int


@router.get("/lanes")
async def show(request: Request, context: Context, _user: Viewer) -> Response:
    lanes, pauses = await context.read(_read, context)
    settings = {each.lane: context.settings.lane(each.lane) for each in lanes}
    types = sorted({*context.registry.handlers, *pauses.types})
    pools = list(_pools(context.settings, lanes))
    return render(request, "lanes.html", lanes=lanes, settings=settings, pauses=pauses, pools=pools, types=types)


@router.get("/pause")
async def confirm(request: Request, _user: Operator, kind: str = LANE, name: str = "") -> Response:
    return render(request, "pause.html", kind=TYPE if kind == TYPE else LANE, name=name)


@router.post("/pause")
async def pause(
    request: Request, context: Context, user: Operator, kind: Text, name: Text, reason: Text = "", until: Text = ""
) -> Response:
    until_at = parse_until(until, context.now())
    await context.run(start_pause, context.database, kind, name, user, until_at, reason.strip() or None)
    return redirect(request, "/lanes", f"Paused the {kind} {name}: no more of its jobs start.")


@router.post("/resume")
async def resume(request: Request, context: Context, user: Operator, kind: Text, name: Text) -> Response:
    result = await context.run(end_pause, context.database, kind, name, user)
    message = f"Resumed the {kind} {name}." if result.was_paused else f"The {kind} {name} was not paused."
    return redirect(request, "/lanes", message)


@router.post("/lanes/workers")
async def set_workers(request: Request, context: Context, user: Operator, name: Text, workers: Text = "") -> Response:
    """An empty number restores the settings of each host."""
    given = workers.strip()
    if given and not (given.isascii() and given.isdigit() and len(given) < 6):
        raise BadField("workers", given, f"an integer, 1–{MAX_WORKERS_SETTABLE}")
    number = int(given) if given else None
    await context.run(set_max_workers, context.database, name, number, user)
    rule = "uses the maximum from its settings" if number is None else f"may have up to {plural(number, 'runner')}"
    return redirect(request, "/lanes", f"The lane {name} {rule}, from the next cycle on.")


def _read(connection: Connection, context: ConsoleContext) -> tuple[list[LaneView], Pauses]:
    now = context.now()
    return list_lanes(connection, context.settings, now), load_pauses(connection, now)


def _pools(settings: Settings, lanes: Sequence[LaneView]) -> Iterator[PoolView]:
    for name, cap in sorted(settings.pools.items()):
        members = [each for each in lanes if settings.lane(each.lane).pool == name]
        yield PoolView(name, cap, [each.lane for each in members], sum(each.runners for each in members))
