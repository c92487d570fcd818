"""Act on jobs: a page that asks for confirmation, the action itself, and the progress of a long one."""

import shlex
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response

from console.tasks import BackgroundTask, summarize
from console.web.filters import PageFilter, filter_of, parse_future
from console.web.page import Context, Operator, Viewer, actor_of, local_path, redirect, render, url
from mayfly.admin.actions import DELAY, VERBS, Verb, act, estimate_matching
from mayfly.errors import BadField

router = APIRouter()

MAX_AT_ONCE = 100  # jobs: more are changed by a background task
MAX_REASON_LENGTH = 500
FAR_FUTURE = timedelta(days=36_500)
CLI_OPTIONS = {"group": "--group", "lane": "--lane", "type": "--type", "status": "--status", "error": "--error"}


@router.get("/jobs/confirm")
async def confirm(request: Request, context: Context, _user: Operator) -> Response:
    """For the selected jobs, or for all that match the filter."""
    given = request.query_params
    verb, is_all = _verb(given.get("all") or given.get("verb", "")), "all" in given
    selected = ",".join(given.getlist("tick")) or given.get("id", "")
    page_filter = filter_of(given) if is_all else PageFilter(id=selected)
    back = local_path(given.get("back", "/jobs"))
    if not page_filter.query:
        return redirect(request, back, "No jobs are selected. Tick at least one.")
    now = context.now()
    page_filter = page_filter.with_fixed_times(now)
    until = now + FAR_FUTURE if verb is DELAY else None  # the user gives the time later: all pending jobs
    matching = await context.run(estimate_matching, context.database, verb, page_filter.job_filter(now), until)
    command = None if verb is DELAY else command_for(verb.name, page_filter)
    return render(
        request,
        "confirm.html",
        verb=verb.name,
        page_filter=page_filter,
        matching=matching,
        back=back,
        command=command,
    )


@router.post("/jobs/act")
async def act_on_jobs(
    request: Request,
    context: Context,
    user: Operator,
    name: Annotated[str, Form(alias="verb")],
    reason: Annotated[str, Form(max_length=MAX_REASON_LENGTH)] = "",
    until: Annotated[str, Form()] = "",
    back: Annotated[str, Form()] = "/jobs",
) -> Response:
    verb, page_filter, now = _verb(name), filter_of(await request.form()), context.now()
    if not page_filter.query or page_filter.searches_content:
        raise HTTPException(422, "Select jobs by their ids, or by a filter of their columns.")
    job_filter, until_at = page_filter.job_filter(now), _until(verb, until, now)
    matching = await context.run(estimate_matching, context.database, verb, job_filter, until_at)
    work = partial(act, context.database, verb, job_filter, actor_of(user), reason.strip() or None, until_at)
    if not matching.is_more and matching.number <= MAX_AT_ONCE:
        return redirect(request, local_path(back), summarize(await context.run(work), verb.past_tense))
    title = f"{verb.name.capitalize()} jobs: {job_filter}"
    task = BackgroundTask(title, verb.past_tense, matching, user.name, now, local_path(back))
    context.tasks.start(task, work)
    return redirect(request, f"/errands/{task.id}")


@router.get("/errands/{task_id}")
async def show_task(request: Request, context: Context, _user: Viewer, task_id: str) -> Response:
    task = context.tasks.get(task_id)
    if task is None:
        raise HTTPException(404, "This task is no longer known. The audit shows what was done.")
    response = render(request, "task.html", task=task)
    if task.is_running:
        response.headers["Refresh"] = f"2; url={url(request, f'/errands/{task.id}')}"
    return response


@router.post("/errands/{task_id}/stop")
async def stop_task(request: Request, context: Context, _user: Operator, task_id: str) -> Response:
    task = context.tasks.get(task_id)
    if task is not None:
        task.is_stopped = True
    return redirect(request, f"/errands/{task_id}")


def command_for(action: str, page_filter: PageFilter) -> str | None:
    """The shell command that does the same; None if the command line has no such option."""
    if page_filter.searches_content or page_filter.since or page_filter.before or page_filter.ended:
        return None
    words = ["mayfly", action, *page_filter.id.replace(",", " ").split()]
    for name, option in CLI_OPTIONS.items():
        value = getattr(page_filter, name)
        words += [option, value] if value else []
    return shlex.join(words)


def of_job(verb: str, job_id: int) -> str:
    return f"mayfly {verb} {job_id}"


def _verb(name: str) -> Verb:
    if name not in VERBS:
        raise BadField("verb", name, f"one of {', '.join(VERBS)}")
    return VERBS[name]


def _until(verb: Verb, given: str, now: datetime) -> datetime | None:
    if verb is not DELAY:
        return None
    until = parse_future("until", given.strip(), now)
    if until is None or until <= now:
        raise BadField("until", given, "a time in the future: 15m, 2h, 1d, or one such as 2026-05-04T12:00")
    return until
