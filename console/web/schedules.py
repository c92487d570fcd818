"""The schedules in plain words: when they ran last and will run next; pause, resume, run now."""

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.web import export
from console.web.filters import read_later
from console.web.page import Here, Operator, Viewer, actor_of, now_of, redirect, render
from mayfly.admin import schedules
from mayfly.admin.schedules import ScheduleView, facts, schedule_view
from mayfly.errors import BadField, ScheduleUnfinished
from mayfly.schedules.cron import describe_rule
from mayfly.schedules.fire import load_known

router = APIRouter()

Text = Annotated[str, Form(max_length=500)]


class ScheduleRow(NamedTuple):
    listed: ScheduleView
    words: str

    def facts(self) -> dict[str, Any]:
        return {**facts(self.listed), "words": self.words}


@router.get("/schedules")
async def show(request: Request, site: Here, _person: Viewer) -> Response:
    shown, problems = await _all(site)
    return render(request, "schedules.html", shown=shown, problems=problems)


@router.get("/schedules.json")
async def as_json(site: Here, _person: Viewer) -> Response:
    return export.as_json("schedules", [each.facts() for each in (await _all(site))[0]])


@router.get("/schedules.csv")
async def as_csv(site: Here, _person: Viewer) -> Response:
    return export.as_csv("schedules", [each.facts() for each in (await _all(site))[0]])


@router.get("/schedules/ask")
async def ask(request: Request, site: Here, _person: Operator, name: str = "", verb: str = "") -> Response:
    """A page of its own: what is done to a schedule is done on all hosts."""
    if verb not in ("pause", "run"):
        raise BadField("verb", verb, "pause or run")
    entry = await site.run(schedules.find_schedule, site.settings, name)
    return render(request, "schedule.html", entry=entry, verb=verb, words=describe_rule(entry.expression))


@router.post("/schedules/pause")
async def pause(
    request: Request, site: Here, person: Operator, name: Text, reason: Text = "", until: Text = ""
) -> Response:
    entry = await site.run(schedules.find_schedule, site.settings, name)
    now = now_of(site)
    end = read_later("until", until.strip(), now)
    if end is not None and end <= now:
        raise BadField("until", until, "a time in the future")
    why = reason.strip() or None
    await site.run(schedules.pause_schedule, site.database, entry, actor_of(person), end, why)
    return redirect(request, "/schedules", f"Paused {name}: it fires nothing until it is resumed.")


@router.post("/schedules/resume")
async def resume(request: Request, site: Here, person: Operator, name: Text) -> Response:
    was_paused = await site.run(schedules.resume_schedule, site.database, name, actor_of(person))
    told = f"Resumed {name}: it fires again from its next due time on." if was_paused else f"{name} was not paused."
    return redirect(request, "/schedules", told)


@router.post("/schedules/run")
async def run(request: Request, site: Here, person: Operator, name: Text) -> Response:
    entry = await site.run(schedules.find_schedule, site.settings, name)
    try:
        job_id = await site.run(schedules.run_schedule, site.database, site.settings, entry, actor_of(person))
    except ScheduleUnfinished as error:
        return redirect(request, "/schedules", str(error))
    return redirect(request, f"/jobs/{job_id}", f"Enqueued a job of {name}; its due times stay as they are.")


async def _all(site: ConsoleContext) -> tuple[list[ScheduleRow], list[str]]:
    found = await site.run(schedules.load_schedules, site.settings)
    known = await site.look(load_known)
    shown = [
        ScheduleRow(each, describe_rule(each.entry.expression))
        for each in schedule_view(found.entries, known, now_of(site))
    ]
    return shown, list(map(str, found.problems))
