"""The commands that do the same in a shell, to be copied. Pure."""

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Form, HTTPException, Request, Response

from console.auth import gate_of, local_path
from console.context import ConsoleContext
from console.web.filters import PageFilter, filter_of, ids_of, read_later
from console.web.page import Here, Operator, Viewer, actor_of, now_of, redirect, render, url
from console.web.tasks import Work, as_done, result_of
from mayfly import admin
from mayfly.admin import CANCEL, DELAY, DISCARD, RETRY, BulkResult, Cancelled, CappedCount, OnProgress, Verb
from mayfly.admin.audit import Actor
from mayfly.admin.bulk import estimate_matching
from mayfly.admin.filters import JobFilter
from mayfly.errors import BadField

OPTIONS = {"group": "--group", "lane": "--lane", "type": "--type", "status": "--status", "error": "--error"}


def command_for(verb: str, meant: PageFilter, until: str = "") -> str | None:
    """None for what the command line cannot say."""
    if meant.looks_inside or meant.since or meant.before or meant.ended:
        return None
    words = ["mayfly", verb, *meant.id.replace(",", " ").split()]
    for name, option in OPTIONS.items():
        value = getattr(meant, name)
        words += [option, value] if value else []
    return shlex.join([*words, "--until", until] if until else words)


def of_job(verb: str, job_id: int) -> str:
    return f"mayfly {verb} {job_id}"


router = APIRouter()

AT_ONCE = 100  # jobs: so many are done before the answer
MAX_REASON_LENGTH = 500
FAR = timedelta(days=36_500)


class JobAction(NamedTuple):
    verb: Verb
    past: str
    says: str  # what it does, for who is about to do it


ACTIONS = {
    "retry": JobAction(RETRY, "due again", "They are tried again at once, the same jobs, with all their tries."),
    "cancel": JobAction(CANCEL, "cancelled", "Those that wait end at once. Those that run are told to end."),
    "discard": JobAction(
        DISCARD, "discarded", "They leave the list of the dead, as cancelled, and are pruned in time."
    ),
    "delay": JobAction(DELAY, "put off", "Those that wait are not started before that time."),
}

CARRIED_OUT: Mapping[Verb, Callable[..., BulkResult | Cancelled]] = {
    RETRY: admin.retry,
    CANCEL: admin.cancel,
    DISCARD: admin.discard,
}


@router.get("/jobs/confirm")
async def confirm(request: Request, site: Here, _person: Operator) -> Response:
    """The boxes that are ticked, or all that match the filter."""
    given = request.query_params
    name = given.get("all") or given.get("verb", "")
    deed = _action(name)
    is_all = "all" in given
    ticked = given.getlist("tick")
    meant = filter_of(given) if is_all else PageFilter(id=ids_of(ticked) or given.get("id", ""))
    back = local_path(given.get("back", "/jobs"))
    if not meant.query:
        return redirect(request, back, "Nothing is selected: tick the jobs that you mean first.")
    now = now_of(site)
    meant = meant.settled(now)
    found = await site.run(_found, site, deed, meant, now)
    return render(
        request, "confirm.html", name=name, deed=deed, meant=meant, found=found, is_all=is_all, back=back,
        command=None if name == "delay" else command_for(name, meant),
    )  # fmt: skip


@router.post("/jobs/act")
async def act(
    request: Request,
    site: Here,
    person: Operator,
    verb: Annotated[str, Form()],
    reason: Annotated[str, Form(max_length=MAX_REASON_LENGTH)] = "",
    until: Annotated[str, Form()] = "",
    back: Annotated[str, Form()] = "/jobs",
) -> Response:
    deed, meant, now = _action(verb), filter_of(await request.form()), now_of(site)
    if not meant.query or meant.looks_inside:
        raise HTTPException(422, "Say which jobs: by their ids, or by a filter of their columns.")
    which, end = meant.which(now), _until(deed, until, now)
    found = await site.run(partial(_found, until=end), site, deed, meant, now)
    work = _work(site, deed, which, actor_of(person), reason.strip() or None, end)
    if not found.is_more and found.number <= AT_ONCE:
        done = as_done(await site.run(work, lambda _jobs: None))
        return redirect(request, local_path(back), result_of(done, deed.past))
    title = f"{verb.capitalize()} jobs: {which}"
    errand = gate_of(request).errands.start(title, found, person, now, local_path(back), work)
    return redirect(request, f"/errands/{errand.id}")


@router.get("/errands/{errand_id}")
async def progress(request: Request, _person: Viewer, errand_id: str) -> Response:
    errand = gate_of(request).errands.get(errand_id)
    if errand is None:
        raise HTTPException(404, "This is not known any more. What was done is in the audit.")
    deed = ACTIONS[errand.title.split()[0].lower()]
    result = None if errand.done is None else result_of(errand.done, deed.past)
    answer = render(request, "errand.html", errand=errand, result=result)
    if errand.is_running:
        answer.headers["Refresh"] = f"2; url={url(request, f'/errands/{errand.id}')}"
    return answer


@router.post("/errands/{errand_id}/stop")
async def stop(request: Request, _person: Operator, errand_id: str) -> Response:
    errand = gate_of(request).errands.get(errand_id)
    if errand is not None:
        errand.is_stopped = True
    return redirect(request, f"/errands/{errand_id}")


def _action(name: str) -> JobAction:
    if name not in ACTIONS:
        raise BadField("verb", name, f"one of {', '.join(ACTIONS)}")
    return ACTIONS[name]


def _until(deed: JobAction, given: str, now: datetime) -> datetime | None:
    if deed.verb is not DELAY:
        return None
    until = read_later("until", given.strip(), now)
    if until is None or until <= now:
        raise BadField("until", given, "a time that is still to come: 15m, 2h, 1d, or one such as 2026-05-04T12:00")
    return until


def _found(
    site: ConsoleContext, deed: JobAction, meant: PageFilter, now: datetime, until: datetime | None = None
) -> CappedCount:
    """For a delay without a time yet: all that wait."""
    end = now + FAR if deed.verb is DELAY and until is None else until
    return estimate_matching(site.database, deed.verb, meant.which(now), end)


def _work(
    site: ConsoleContext, deed: JobAction, which: JobFilter, actor: Actor, reason: str | None, until: datetime | None
) -> Work:
    def work(tell: OnProgress) -> BulkResult | Cancelled:
        if until is not None:
            return admin.delay(site.database, which, until, actor, reason, tell)
        return CARRIED_OUT[deed.verb](site.database, which, actor, reason, tell)

    return work
