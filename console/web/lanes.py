"""Lanes: backlog, runners, limits, pools and pauses; pause, resume and set the number of runners."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.web.filters import parse_future
from console.web.page import Context, Operator, Viewer, actor_of, plural, redirect, render
from mayfly.admin.lanes import MAX_WORKERS_SETTABLE, LaneView, end_pause, list_lanes, set_max_workers, start_pause
from mayfly.db.connection import Connection
from mayfly.errors import BadField
from mayfly.queue.pauses import LANE, TYPE, Pause, load_pauses
from mayfly.settings import ResolvedLane

router = APIRouter()

Text = Annotated[str, Form(max_length=500)]


class LaneRow(NamedTuple):
    view: LaneView
    settings: ResolvedLane
    pause: Pause | None


class PoolView(NamedTuple):
    name: str
    cap: int
    lanes: tuple[str, ...]
    runners: int


@router.get("/lanes")
async def show(request: Request, context: Context, _user: Viewer) -> Response:
    rows, paused_types = await context.read(_read, context)
    types = sorted({*context.registry.handlers, *(each.name for each in paused_types)})
    pools = _pools(context, rows)
    return render(request, "lanes.html", rows=rows, pools=pools, paused_types=paused_types, types=types)


@router.get("/pause")
async def confirm(request: Request, _user: Operator, kind: str = LANE, name: str = "") -> Response:
    return render(request, "pause.html", kind=TYPE if kind == TYPE else LANE, name=name)


@router.post("/pause")
async def pause(
    request: Request, context: Context, user: Operator, kind: Text, name: Text, reason: Text = "", until: Text = ""
) -> Response:
    until_at = parse_future("until", until.strip(), context.now())
    await context.run(start_pause, context.database, kind, name, actor_of(user), until_at, reason.strip() or None)
    return redirect(request, "/lanes", f"Paused the {kind} {name}: no more of its jobs are started.")


@router.post("/resume")
async def resume(request: Request, context: Context, user: Operator, kind: Text, name: Text) -> Response:
    result = await context.run(end_pause, context.database, kind, name, actor_of(user))
    message = f"Resumed the {kind} {name}." if result.was_paused else f"The {kind} {name} was not paused."
    return redirect(request, "/lanes", message)


@router.post("/lanes/workers")
async def set_workers(request: Request, context: Context, user: Operator, name: Text, workers: Text = "") -> Response:
    """Empty: the settings of each host decide."""
    given = workers.strip()
    if given and not (given.isascii() and given.isdigit() and len(given) < 6):
        raise BadField("workers", given, f"an integer, 1–{MAX_WORKERS_SETTABLE}")
    number = int(given) if given else None
    await context.run(set_max_workers, context.database, name, number, actor_of(user))
    allowed = "as many runners as the settings allow" if number is None else f"up to {plural(number, 'runner')}"
    return redirect(request, "/lanes", f"The lane {name} may have {allowed}, from the next cycle on.")


def _read(connection: Connection, context: ConsoleContext) -> tuple[list[LaneRow], list[Pause]]:
    now, settings = context.now(), context.settings
    pauses = load_pauses(connection, now)
    views = list_lanes(connection, settings, now)
    rows = [LaneRow(each, settings.lane(each.lane), pauses.lanes.get(each.lane)) for each in views]
    return rows, sorted(pauses.types.values(), key=lambda each: each.name)


def _pools(context: ConsoleContext, rows: list[LaneRow]) -> list[PoolView]:
    pools = []
    for name, cap in sorted(context.settings.pools.items()):
        members = [each for each in rows if each.settings.pool == name]
        runners = sum(each.view.runners for each in members)
        pools.append(PoolView(name, cap, tuple(each.view.lane for each in members), runners))
    return pools
