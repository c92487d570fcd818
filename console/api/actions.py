"""Retry, cancel, discard and delay jobs: one by its id, or all that match a filter."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from console.api.schemas import (
    MAX_JOBS,
    Context,
    JobId,
    JsonRoute,
    ReasonRequest,
    Timestamp,
    TokenActor,
    requires,
)
from console.context import ConsoleContext
from console.problems import described
from mayfly.admin.actions import CANCEL, DELAY, DISCARD, RETRY, Verb, act, count_matching
from mayfly.admin.audit import Actor
from mayfly.admin.auth import OPERATE
from mayfly.admin.filters import JobFilter
from mayfly.admin.jobs import list_jobs
from mayfly.errors import NothingToDo, UnknownJob

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[requires(OPERATE)])

ONE = described(404, 409, 422)
MANY = described(422)
NO_REASON = ReasonRequest()


class DelayRequest(ReasonRequest):
    until: Timestamp


class FilterRequest(ReasonRequest):
    """Jobs that match all given fields. With `dry_run` they are only counted, up to 10,001."""

    ids: Annotated[list[int] | None, Field(max_length=MAX_JOBS)] = None
    lane: str | None = None
    type: str | None = None
    status: str | None = None
    group_key: str | None = None
    error: str | None = None
    created_before: Timestamp | None = None
    created_after: Timestamp | None = None
    dry_run: bool = False

    @property
    def job_filter(self) -> JobFilter:
        fields = self.model_dump(include={*FilterRequest.model_fields} - {"ids", "dry_run", "reason"})
        return JobFilter(ids=None if self.ids is None else tuple(self.ids), **fields)


class DelayFilterRequest(FilterRequest):
    until: Timestamp


class ActionResponse(BaseModel):
    """`told`: running jobs that were asked to stop. `held`: skipped, because another job holds their unique key."""

    changed: int
    told: int = 0
    held: int = 0


class FoundResponse(BaseModel):
    would_change: int


@router.post("/jobs/{job_id}/retry", responses=ONE)
async def retry(
    context: Context, actor: TokenActor, job_id: JobId, request: ReasonRequest = NO_REASON
) -> ActionResponse:
    """Run a dead or cancelled job again, the same row, with all its attempts; make a pending one due now."""
    return await context.run(_act_on_one, context, actor, RETRY, job_id, request)


@router.post("/jobs/{job_id}/cancel", responses=ONE)
async def cancel(
    context: Context, actor: TokenActor, job_id: JobId, request: ReasonRequest = NO_REASON
) -> ActionResponse:
    """Cancel a pending job; ask a running one to stop."""
    return await context.run(_act_on_one, context, actor, CANCEL, job_id, request)


@router.post("/jobs/{job_id}/discard", responses=ONE)
async def discard(
    context: Context, actor: TokenActor, job_id: JobId, request: ReasonRequest = NO_REASON
) -> ActionResponse:
    """Mark a dead job as cancelled, so that it leaves the list of dead jobs."""
    return await context.run(_act_on_one, context, actor, DISCARD, job_id, request)


@router.post("/jobs/{job_id}/delay", responses=ONE)
async def delay(context: Context, actor: TokenActor, job_id: JobId, request: DelayRequest) -> ActionResponse:
    """Delay a pending job."""
    return await context.run(_act_on_one, context, actor, DELAY, job_id, request)


@router.post("/retry", responses=MANY)
async def retry_all(context: Context, actor: TokenActor, request: FilterRequest) -> ActionResponse | FoundResponse:
    """Retry all jobs that match; without a status, the dead ones."""
    return await context.run(_act_on_many, context, actor, RETRY, request)


@router.post("/cancel", responses=MANY)
async def cancel_all(context: Context, actor: TokenActor, request: FilterRequest) -> ActionResponse | FoundResponse:
    """Cancel all unfinished jobs that match."""
    return await context.run(_act_on_many, context, actor, CANCEL, request)


@router.post("/discard", responses=MANY)
async def discard_all(context: Context, actor: TokenActor, request: FilterRequest) -> ActionResponse | FoundResponse:
    """Discard all dead jobs that match."""
    return await context.run(_act_on_many, context, actor, DISCARD, request)


@router.post("/delay", responses=MANY)
async def delay_all(
    context: Context, actor: TokenActor, request: DelayFilterRequest
) -> ActionResponse | FoundResponse:
    """Delay all pending jobs that match."""
    return await context.run(_act_on_many, context, actor, DELAY, request)


def _act_on_one(
    context: ConsoleContext, actor: Actor, verb: Verb, job_id: int, request: ReasonRequest
) -> ActionResponse:
    """404 if there is no such job, 409 if its status does not allow the action."""
    job_filter = JobFilter(ids=(job_id,))
    response = _act(context, actor, verb, job_filter, request)
    if response.changed or response.told:
        return response
    [*found] = context.database.read(lambda connection: list_jobs(connection, job_filter)).jobs
    if not found:
        raise UnknownJob(job_id)
    raise NothingToDo(verb.name, job_id, found[0].status, held=bool(response.held))


def _act_on_many(
    context: ConsoleContext, actor: Actor, verb: Verb, request: FilterRequest
) -> ActionResponse | FoundResponse:
    if not request.dry_run:
        return _act(context, actor, verb, request.job_filter, request)
    number = count_matching(context.database, verb, request.job_filter, getattr(request, "until", None))
    return FoundResponse(would_change=number)


def _act(
    context: ConsoleContext, actor: Actor, verb: Verb, job_filter: JobFilter, request: ReasonRequest
) -> ActionResponse:
    result = act(context.database, verb, job_filter, actor, request.reason, getattr(request, "until", None))
    return ActionResponse(changed=result.changed, told=result.requested, held=result.held)
