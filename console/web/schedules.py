"""Schedules: each rule in words, its last and next runs; pause, resume and run now."""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.filters import parse_until
from console.web.page import Context, Operator, Viewer, redirect, render
from mayfly.admin import schedules
from mayfly.admin.schedules import ScheduleView, facts, schedule_view
from mayfly.errors import BadField, ScheduleUnfinished
from mayfly.schedules.cron import describe_rule
from mayfly.schedules.fire import load_known

router = APIRouter()

Text = Annotated[str, Form(max_length=500)]


@router.get("/schedules")
async def show(request: Request, context: Context, _user: Viewer) -> Response:
    views, problems = await _read(context)
    return render(request, "schedules.html", views=views, problems=problems, describe=describe_rule)


async def exported(context: Context) -> list[export.Facts]:
    views, _ = await _read(context)
    return [{**facts(each), "words": describe_rule(each.entry.expression)} for each in views]


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
    until_at = parse_until(until, context.now())
    arguments = (context.database, entry, user, until_at, reason.strip() or None)
    await context.run(schedules.pause_schedule, *arguments)
    return redirect(request, "/schedules", f"Paused {name}: it enqueues no jobs while it is paused.")


@router.post("/schedules/resume")
async def resume(request: Request, context: Context, user: Operator, name: Text) -> Response:
    was_paused = await context.run(schedules.resume_schedule, context.database, name, user)
    message = f"Resumed {name}: it runs again at its next due time." if was_paused else f"{name} was not paused."
    return redirect(request, "/schedules", message)


@router.post("/schedules/run")
async def run(request: Request, context: Context, user: Operator, name: Text) -> Response:
    entry = await context.run(schedules.find_schedule, context.settings, name)
    arguments = (context.database, context.settings, entry, user)
    try:
        job_id = await context.run(schedules.run_schedule, *arguments)
    except ScheduleUnfinished as error:
        return redirect(request, "/schedules", str(error))
    return redirect(request, f"/jobs/{job_id}", f"Enqueued a job of {name}. Its due times do not change.")


async def _read(context: ConsoleContext) -> tuple[list[ScheduleView], list[str]]:
    found = await context.run(schedules.load_schedules, context.settings)
    known = await context.read(load_known)
    return schedule_view(found.entries, known, context.now()), list(map(str, found.problems))


export.add_routes(router, "schedules", exported)
