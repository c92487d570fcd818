"""Schedules: each rule in words, its last and next runs; pause, resume and run now."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.filters import parse_future
from console.web.page import Context, Operator, Viewer, actor_of, redirect, render
from mayfly.admin import schedules
from mayfly.admin.schedules import ScheduleView, facts, schedule_view
from mayfly.errors import BadField, ScheduleUnfinished
from mayfly.schedules.cron import describe_rule
from mayfly.schedules.fire import load_known

router = APIRouter()

Text = Annotated[str, Form(max_length=500)]


class ScheduleRow(NamedTuple):
    view: ScheduleView
    description: str

    def facts(self) -> dict[str, Any]:
        return {**facts(self.view), "words": self.description}


@router.get("/schedules")
async def show(request: Request, context: Context, _user: Viewer) -> Response:
    rows, problems = await _read(context)
    return render(request, "schedules.html", rows=rows, problems=problems)


async def exported(context: Context) -> list[export.Facts]:
    return [each.facts() for each in (await _read(context))[0]]


@router.get("/schedules/ask")
async def confirm(request: Request, context: Context, _user: Operator, name: str = "", verb: str = "") -> Response:
    if verb not in ("pause", "run"):
        raise BadField("verb", verb, "pause or run")
    entry = await context.run(schedules.find_schedule, context.settings, name)
    return render(request, "schedule.html", entry=entry, verb=verb, description=describe_rule(entry.expression))


@router.post("/schedules/pause")
async def pause(
    request: Request, context: Context, user: Operator, name: Text, reason: Text = "", until: Text = ""
) -> Response:
    entry = await context.run(schedules.find_schedule, context.settings, name)
    now = context.now()
    until_at = parse_future("until", until.strip(), now)
    if until_at is not None and until_at <= now:
        raise BadField("until", until, "a time in the future")
    arguments = (context.database, entry, actor_of(user), until_at, reason.strip() or None)
    await context.run(schedules.pause_schedule, *arguments)
    return redirect(request, "/schedules", f"Paused {name}: it enqueues no jobs until it is resumed.")


@router.post("/schedules/resume")
async def resume(request: Request, context: Context, user: Operator, name: Text) -> Response:
    was_paused = await context.run(schedules.resume_schedule, context.database, name, actor_of(user))
    message = f"Resumed {name}: it runs again at its next due time." if was_paused else f"{name} was not paused."
    return redirect(request, "/schedules", message)


@router.post("/schedules/run")
async def run(request: Request, context: Context, user: Operator, name: Text) -> Response:
    entry = await context.run(schedules.find_schedule, context.settings, name)
    arguments = (context.database, context.settings, entry, actor_of(user))
    try:
        job_id = await context.run(schedules.run_schedule, *arguments)
    except ScheduleUnfinished as error:
        return redirect(request, "/schedules", str(error))
    return redirect(request, f"/jobs/{job_id}", f"Enqueued a job of {name}. Its due times do not change.")


async def _read(context: ConsoleContext) -> tuple[list[ScheduleRow], list[str]]:
    found = await context.run(schedules.load_schedules, context.settings)
    known = await context.read(load_known)
    rows = [
        ScheduleRow(each, describe_rule(each.entry.expression))
        for each in schedule_view(found.entries, known, context.now())
    ]
    return rows, list(map(str, found.problems))


export.add_routes(router, "schedules", exported)
