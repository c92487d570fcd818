"""What can be done to jobs: the verbs of the command line, in the name of a token."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from console.api.schemas import MAX_JOBS, Asker, Body, Here, JobId, JsonRoute, Timestamp, needs
from console.context import ConsoleContext
from console.problems import described
from mayfly import admin
from mayfly.admin import CANCEL, DELAY, DISCARD, RETRY, BulkResult, Cancelled, Verb
from mayfly.admin.audit import HTTP, Actor
from mayfly.admin.auth import OPERATE, Token
from mayfly.admin.filters import JobFilter
from mayfly.errors import NothingToDo, UnknownJob

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[needs(OPERATE)])


class ReasonRequest(Body):
    reason: str | None = None


class DelayRequest(ReasonRequest):
    until: Timestamp


class FilterRequest(ReasonRequest):
    """The jobs that have all of what is named; with `dry_run` they are only counted, to 10,000 and one at most."""

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
    def which(self) -> JobFilter:
        ids = None if self.ids is None else tuple(self.ids)
        named = (
            self.group_key,
            self.lane,
            self.type,
            self.status,
            self.created_before,
            self.created_after,
            self.error,
        )
        return JobFilter(ids, *named)


class DelayFilterRequest(FilterRequest):
    until: Timestamp


class ActionResponse(BaseModel):
    """`told`: they run, and were told to end. `held`: left as they are, since another job holds their unique key."""

    changed: int
    told: int = 0
    held: int = 0


class FoundResponse(BaseModel):
    would_change: int


def _response(done: BulkResult | Cancelled) -> ActionResponse:
    if isinstance(done, Cancelled):
        return ActionResponse(changed=done.ended, told=done.told)
    return ActionResponse(changed=done.changed, told=done.told, held=done.held)


def _act(site: ConsoleContext, token: Token, verb: Verb, which: JobFilter, said: ReasonRequest) -> ActionResponse:
    actor = Actor(token.name, HTTP)
    if isinstance(said, DelayRequest | DelayFilterRequest):
        return _response(admin.delay(site.database, which, said.until, actor, said.reason))
    carry_out: Callable[..., BulkResult | Cancelled] = getattr(admin, verb.name)
    return _response(carry_out(site.database, which, actor, said.reason))


def _act_on_one(site: ConsoleContext, token: Token, verb: Verb, job_id: int, said: ReasonRequest) -> ActionResponse:
    """404 where there is none, 409 where it is not as it would have to be."""
    which = JobFilter(ids=(job_id,))
    did = _act(site, token, verb, which, said)
    if did.changed or did.told:
        return did
    [*found] = site.database.read(lambda connection: admin.list_jobs(connection, which)).jobs
    if not found:
        raise UnknownJob(job_id)
    raise NothingToDo(verb.name, job_id, found[0].status, held=bool(did.held))


def _act_on_many(
    site: ConsoleContext, token: Token, verb: Verb, said: FilterRequest
) -> ActionResponse | FoundResponse:
    if not said.dry_run:
        return _act(site, token, verb, said.which, said)
    until = said.until if isinstance(said, DelayFilterRequest) else None
    return FoundResponse(would_change=admin.count_matching(site.database, verb, said.which, until))


ONE = described(404, 409, 422)
MANY = described(422)
NO_REASON = ReasonRequest()


@router.post("/jobs/{job_id}/retry", responses=ONE)
async def retry(site: Here, token: Asker, job_id: JobId, said: ReasonRequest = NO_REASON) -> ActionResponse:
    """Let a dead or cancelled job be run again, the same row, with all its attempts; one that waits is due now."""
    return await site.run(_act_on_one, site, token, RETRY, job_id, said)


@router.post("/jobs/{job_id}/cancel", responses=ONE)
async def cancel(site: Here, token: Asker, job_id: JobId, said: ReasonRequest = NO_REASON) -> ActionResponse:
    """End a job that waits; tell one that runs to end."""
    return await site.run(_act_on_one, site, token, CANCEL, job_id, said)


@router.post("/jobs/{job_id}/discard", responses=ONE)
async def discard(site: Here, token: Asker, job_id: JobId, said: ReasonRequest = NO_REASON) -> ActionResponse:
    """Let a dead job leave the list of the dead, as cancelled."""
    return await site.run(_act_on_one, site, token, DISCARD, job_id, said)


@router.post("/jobs/{job_id}/delay", responses=ONE)
async def delay(site: Here, token: Asker, job_id: JobId, said: DelayRequest) -> ActionResponse:
    """Put off a job that waits."""
    return await site.run(_act_on_one, site, token, DELAY, job_id, said)


@router.post("/retry", responses=MANY)
async def retry_all(site: Here, token: Asker, said: FilterRequest) -> ActionResponse | FoundResponse:
    """Retry all jobs that match: the dead ones, where no status is named."""
    return await site.run(_act_on_many, site, token, RETRY, said)


@router.post("/cancel", responses=MANY)
async def cancel_all(site: Here, token: Asker, said: FilterRequest) -> ActionResponse | FoundResponse:
    """Cancel all unfinished jobs that match."""
    return await site.run(_act_on_many, site, token, CANCEL, said)


@router.post("/discard", responses=MANY)
async def discard_all(site: Here, token: Asker, said: FilterRequest) -> ActionResponse | FoundResponse:
    """Discard all dead jobs that match."""
    return await site.run(_act_on_many, site, token, DISCARD, said)


@router.post("/delay", responses=MANY)
async def delay_all(site: Here, token: Asker, said: DelayFilterRequest) -> ActionResponse | FoundResponse:
    """Put off all jobs that match and wait."""
    return await site.run(_act_on_many, site, token, DELAY, said)
