"""Batches: their progress; seal one whose producer crashed, abandon one, cancel its jobs."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from console.context import ConsoleContext
from console.tasks import BackgroundTask
from console.web import export
from console.web.actions import MAX_AT_ONCE
from console.web.page import Context, Operator, Viewer, redirect, render
from mayfly.admin.actions import CANCEL, abandon_batch, count_matching, seal_batch
from mayfly.admin.filters import JobFilter
from mayfly.admin.job import list_batches
from mayfly.admin.jobs import facts_of
from mayfly.errors import BadField, UnknownName
from mayfly.queue.batches import is_being_filled, is_open
from mayfly.queue.outcome import storable
from mayfly.schema.tables import PENDING

router = APIRouter()

MAX_JOBS_READ = 50_000  # of all batches, so that the response takes less than 100 ms
VERBS = {"seal": is_being_filled, "abandon": is_open}  # with the batches they apply to

Text = Annotated[str, Form(max_length=500)]


@router.get("/batches")
async def show(request: Request, context: Context, _user: Viewer) -> Response:
    batches = await context.read(list_batches, context.now(), MAX_JOBS_READ)
    return render(request, "batches.html", batches=batches)


@router.get("/batches/confirm")
async def confirm(request: Request, context: Context, _user: Operator, verb: str = "", name: str = "") -> Response:
    await _check(context, verb, name)
    matching = await context.run(count_matching, context.database, CANCEL, _pending(name))
    return render(request, "batch.html", verb=verb, name=name, matching=matching)


@router.post("/batches/seal")
async def seal(request: Request, context: Context, user: Operator, name: Text = "") -> Response:
    await _check(context, "seal", name)
    is_sealed = await context.run(seal_batch, context.database, name, user)
    message = f"Sealed the batch {name}." if is_sealed else f"The batch {name} was already sealed."
    return redirect(request, "/batches", message)


@router.post("/batches/abandon")
async def abandon(request: Request, context: Context, user: Operator, name: Text = "", reason: Text = "") -> Response:
    await _check(context, "abandon", name)
    matching = await context.run(count_matching, context.database, CANCEL, _pending(name))
    because = reason.strip() or "no reason given"
    work = partial(abandon_batch, context.database, name, because, user, sources=context.sources)
    if not matching.is_more and matching.number <= MAX_AT_ONCE:
        cancelled = (await context.run(work)).text(CANCEL.past_tense)
        return redirect(request, "/batches", f"Abandoned the batch {name}. {cancelled}")
    task = BackgroundTask(
        f"Abandon the batch {name}", CANCEL.past_tense, matching, user.name, context.now(), "/batches"
    )
    context.tasks.start(task, work)
    return redirect(request, f"/errands/{task.id}")


async def _check(context: ConsoleContext, verb: str, name: str) -> None:
    if verb not in VERBS:
        raise BadField("verb", verb, f"one of {', '.join(VERBS)}")
    if not await context.read(VERBS[verb], storable(name)):
        raise UnknownName("batch", name, f"to {verb}; it may have been completed")


def _pending(name: str) -> JobFilter:
    return JobFilter(group_key=name, status=PENDING)


async def exported(context: Context) -> list[export.Facts]:
    return [facts_of(each) for each in await context.read(list_batches, context.now(), MAX_JOBS_READ)]


export.add_routes(router, "batches", exported)
