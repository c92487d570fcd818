"""Actions on jobs: the confirmation page, the action, and the progress page of a long one."""

import shlex
from datetime import timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response

from console.tasks import BackgroundTask
from console.web.filters import PageFilter, filter_of, parse_until
from console.web.jobs import JobSearch
from console.web.page import Context, Operator, Viewer, local_path, redirect, render, url
from mayfly.admin.actions import DELAY, MAX_ROWS_ESTIMATED, VERBS, Verb, act, count_matching
from mayfly.errors import BadField

router = APIRouter()

MAX_AT_ONCE = 100  # jobs; a background task changes more than that
MAX_REASON_LENGTH = 500
FAR_FUTURE = timedelta(days=36_500)
APPLIES_TO = {
    "retry": "dead, cancelled, or pending and due later",
    "cancel": "pending, or processing and not yet asked to stop",
    "discard": "dead",
    "delay": "pending",
}
CLI_OPTIONS = {
    "group": "--group",
    "lane": "--lane",
    "type": "--type",
    "status": "--status",
    "error": "--error",
    "source": "--source",
    "row": "--row",
}


@router.get("/jobs/confirm")
async def confirm(request: Request, context: Context, _user: Operator) -> Response:
    """Confirm an action on the selected jobs, or on all that match the filter."""
    given = request.query_params
    verb, is_all = _verb(given.get("all") or given.get("verb", "")), "all" in given
    selected = ",".join(given.getlist("tick")) or given.get("id", "")
    page_filter = filter_of(given) if is_all else PageFilter(id=selected)
    back = local_path(given.get("back", "/jobs"))
    if not page_filter.query:
        return redirect(request, back, "No jobs selected. Select at least one.")
    now = context.now()
    page_filter = page_filter.with_fixed_times(now)
    until = now + FAR_FUTURE if verb is DELAY else None  # the time is not known yet: count all pending jobs
    search = JobSearch(page_filter, context.settings.redact, now)
    matching = await context.run(
        count_matching, context.database, verb, search.job_filter, until, MAX_ROWS_ESTIMATED, search.visible
    )
    return render(
        request, "confirm.html", verb=verb.name, page_filter=page_filter, matching=matching, back=back,
        reason=nothing_to_change(verb, page_filter),
        command=None if verb is DELAY else command_for(verb.name, page_filter),
    )  # fmt: skip


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
    search = JobSearch(page_filter, context.settings.redact, now)
    job_filter, until_at = search.job_filter, parse_until(until, now) if verb is DELAY else None
    if verb is DELAY and until_at is None:
        raise BadField("until", until, "the time until which the jobs are delayed")
    matching = await context.run(
        count_matching, context.database, verb, job_filter, until_at, MAX_ROWS_ESTIMATED, search.visible
    )
    work = partial(
        act,
        context.database,
        verb,
        job_filter,
        user,
        reason.strip() or None,
        until_at,
        visible=search.visible,
        sources=context.sources,
    )
    if not matching.is_more and matching.number <= MAX_AT_ONCE:
        return redirect(request, local_path(back), (await context.run(work)).text(verb.past_tense))
    title = f"{verb.name.capitalize()} jobs: {job_filter}"
    task = BackgroundTask(title, verb.past_tense, matching, user.name, now, local_path(back))
    context.tasks.start(task, work)
    return redirect(request, f"/errands/{task.id}")


@router.get("/errands/{task_id}")
async def show_task(request: Request, context: Context, _user: Viewer, task_id: str) -> Response:
    task = context.tasks.get(task_id)
    if task is None:
        raise HTTPException(404, "There is no such task; old ones are forgotten. The audit lists what was done.")
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


def nothing_to_change(verb: Verb, page_filter: PageFilter) -> str:
    """Why no job can be changed: none is in a state that the verb applies to."""
    if page_filter.id:
        return f"None of the selected jobs is {APPLIES_TO[verb.name]}."
    if page_filter.status or verb.default_status is None:
        return f"No job that matches the filter is {APPLIES_TO[verb.name]}."
    others = " or ".join(each for each in verb.applies_to if each != verb.default_status)
    return f"No job that matches the filter is {verb.default_status}; filter by the status {others} to select others."


def command_for(action: str, page_filter: PageFilter) -> str | None:
    """The equivalent shell command; None if the command line lacks an option for the filter."""
    if page_filter.since or page_filter.before or page_filter.ended:
        return None
    words = ["mayfly", action, *page_filter.id.replace(",", " ").split()]
    for name, option in CLI_OPTIONS.items():
        value = getattr(page_filter, name)
        words += [option, value] if value else []
    words += ["--text", page_filter.plain_text] if page_filter.plain_text else []
    for name, value in page_filter.payload or ():
        words += ["--payload", f"{name}={value}"]
    return shlex.join(words)


def _verb(name: str) -> Verb:
    if name not in VERBS:
        raise BadField("verb", name, f"one of {', '.join(VERBS)}")
    return VERBS[name]
