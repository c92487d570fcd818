"""Act on jobs: a page that asks for confirmation, the action itself, and the progress of a long one."""

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form, HTTPException, Request, Response

from console.context import ConsoleContext
from console.tasks import BackgroundTask, Work, as_bulk_result, summarize
from console.web.filters import PageFilter, filter_of, parse_future
from console.web.page import Context, Operator, Viewer, actor_of, local_path, redirect, render, url
from mayfly import admin
from mayfly.admin import (
    CANCEL,
    DELAY,
    DISCARD,
    RETRY,
    BulkResult,
    Cancelled,
    CappedCount,
    JobFilter,
    OnProgress,
    Verb,
    estimate_matching,
)
from mayfly.admin.audit import Actor
from mayfly.errors import BadField

router = APIRouter()

MAX_AT_ONCE = 100  # jobs: more are changed by a background task
MAX_REASON_LENGTH = 500
FAR_FUTURE = timedelta(days=36_500)
CLI_OPTIONS = {"group": "--group", "lane": "--lane", "type": "--type", "status": "--status", "error": "--error"}


class JobAction(NamedTuple):
    name: str
    verb: Verb
    past_tense: str
    effect: str


ACTIONS = {
    each.name: each
    for each in (
        JobAction("retry", RETRY, "due again", "The same jobs run again at once, with all their attempts."),
        JobAction("cancel", CANCEL, "cancelled", "Pending jobs end at once. Running jobs are asked to stop."),
        JobAction(
            "discard", DISCARD, "discarded",
            "The jobs leave the list of dead jobs: they are marked as cancelled, and pruned later.",
        ),
        JobAction("delay", DELAY, "delayed", "Pending jobs are not started before that time."),
    )
}  # fmt: skip
FUNCTIONS: Mapping[Verb, Callable[..., BulkResult | Cancelled]] = {
    RETRY: admin.retry,
    CANCEL: admin.cancel,
    DISCARD: admin.discard,
}


@router.get("/jobs/confirm")
async def confirm(request: Request, context: Context, _user: Operator) -> Response:
    """For the selected jobs, or for all that match the filter."""
    given = request.query_params
    action, is_all = _action(given.get("all") or given.get("verb", "")), "all" in given
    selected = ",".join(given.getlist("tick")) or given.get("id", "")
    page_filter = filter_of(given) if is_all else PageFilter(id=selected)
    back = local_path(given.get("back", "/jobs"))
    if not page_filter.query:
        return redirect(request, back, "No jobs are selected. Tick at least one.")
    now = context.now()
    page_filter = page_filter.with_fixed_times(now)
    matching = await context.run(_count, context, action, page_filter, now)
    command = None if action.verb is DELAY else command_for(action.name, page_filter)
    return render(
        request, "confirm.html", action=action, page_filter=page_filter, matching=matching, back=back, command=command
    )


@router.post("/jobs/act")
async def act(
    request: Request,
    context: Context,
    user: Operator,
    verb: Annotated[str, Form()],
    reason: Annotated[str, Form(max_length=MAX_REASON_LENGTH)] = "",
    until: Annotated[str, Form()] = "",
    back: Annotated[str, Form()] = "/jobs",
) -> Response:
    action, page_filter, now = _action(verb), filter_of(await request.form()), context.now()
    if not page_filter.query or page_filter.searches_content:
        raise HTTPException(422, "Select jobs by their ids, or by a filter of their columns.")
    job_filter, until_at = page_filter.job_filter(now), _until(action, until, now)
    matching = await context.run(_count, context, action, page_filter, now, until_at)
    work = _work(context, action, job_filter, actor_of(user), reason.strip() or None, until_at)
    if not matching.is_more and matching.number <= MAX_AT_ONCE:
        result = as_bulk_result(await context.run(work, lambda _jobs: None))
        return redirect(request, local_path(back), summarize(result, action.past_tense))
    title = f"{verb.capitalize()} jobs: {job_filter}"
    task = BackgroundTask(title, action.past_tense, matching, user.name, now, local_path(back))
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


def _action(name: str) -> JobAction:
    if name not in ACTIONS:
        raise BadField("verb", name, f"one of {', '.join(ACTIONS)}")
    return ACTIONS[name]


def _until(action: JobAction, given: str, now: datetime) -> datetime | None:
    if action.verb is not DELAY:
        return None
    until = parse_future("until", given.strip(), now)
    if until is None or until <= now:
        raise BadField("until", given, "a time in the future: 15m, 2h, 1d, or one such as 2026-05-04T12:00")
    return until


def _count(
    context: ConsoleContext,
    action: JobAction,
    page_filter: PageFilter,
    now: datetime,
    until: datetime | None = None,
) -> CappedCount:
    """Before a user has given the time of a delay: all pending jobs."""
    if action.verb is DELAY and until is None:
        until = now + FAR_FUTURE
    return estimate_matching(context.database, action.verb, page_filter.job_filter(now), until)


def _work(
    context: ConsoleContext,
    action: JobAction,
    job_filter: JobFilter,
    actor: Actor,
    reason: str | None,
    until: datetime | None,
) -> Work:
    def work(on_progress: OnProgress) -> BulkResult | Cancelled:
        if until is not None:
            return admin.delay(context.database, job_filter, until, actor, reason, on_progress)
        return FUNCTIONS[action.verb](context.database, job_filter, actor, reason, on_progress)

    return work
