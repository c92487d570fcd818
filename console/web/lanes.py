"""Lanes and their limits: what waits, who may work, and whether anybody has paused them."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.web.filters import read_later
from console.web.page import Here, Operator, Viewer, actor_of, now_of, redirect, render
from mayfly import admin
from mayfly.admin import LaneView
from mayfly.admin.lanes import MAX_WORKERS_SETTABLE
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
async def show(request: Request, site: Here, _person: Viewer) -> Response:
    shown, types = await site.look(lambda connection: _read(connection, site))
    known = sorted({*site.producer.registry.handlers, *(each.name for each in types)})
    return render(request, "lanes.html", shown=shown, pools=_pools(site, shown), paused_types=types, types=known)


@router.get("/pause")
async def ask(request: Request, _person: Operator, kind: str = LANE, name: str = "") -> Response:
    """A page of its own: a reason and an end are worth a moment."""
    return render(request, "pause.html", kind=TYPE if kind == TYPE else LANE, name=name)


@router.post("/pause")
async def pause(
    request: Request, site: Here, person: Operator, kind: Text, name: Text, reason: Text = "", until: Text = ""
) -> Response:
    end, why = read_later("until", until.strip(), now_of(site)), reason.strip() or None
    await site.run(admin.pause, site.database, kind, name, actor_of(person), end, why)
    return redirect(request, "/lanes", f"Paused the {kind} {name}: nothing more of it is started.")


@router.post("/resume")
async def resume(request: Request, site: Here, person: Operator, kind: Text, name: Text) -> Response:
    found = await site.run(admin.resume, site.database, kind, name, actor_of(person))
    told = f"Resumed the {kind} {name}." if found.was_paused else f"The {kind} {name} was not paused."
    return redirect(request, "/lanes", told)


@router.post("/lanes/workers")
async def set_workers(request: Request, site: Here, person: Operator, name: Text, workers: Text = "") -> Response:
    """Empty: as the settings of each host say."""
    given = workers.strip()
    if given and not (given.isascii() and given.isdigit() and len(given) < 6):
        raise BadField("workers", given, f"a whole number from 1 to {MAX_WORKERS_SETTABLE}")
    number = int(given) if given else None
    await site.run(admin.set_lane, site.database, name, number, actor_of(person))
    told = "as many runners as the settings say" if number is None else f"{number} runners at most"
    return redirect(request, "/lanes", f"The lane {name} may have {told}, from the next cycle on.")


def _read(connection: Connection, site: ConsoleContext) -> tuple[list[LaneRow], list[Pause]]:
    now = now_of(site)
    pauses = load_pauses(connection, now)
    views = admin.list_lanes(connection, site.settings, now)
    shown = [LaneRow(each, site.settings.lane(each.lane), pauses.lanes.get(each.lane)) for each in views]
    return shown, sorted(pauses.types.values(), key=lambda each: each.name)


def _pools(site: ConsoleContext, shown: list[LaneRow]) -> list[PoolView]:
    pools = []
    for name, cap in sorted(site.settings.pools.items()):
        members = [each for each in shown if each.settings.pool == name]
        runners = sum(each.view.runners for each in members)
        pools.append(PoolView(name, cap, tuple(each.view.lane for each in members), runners))
    return pools
