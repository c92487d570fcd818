"""Workers in any language: pull jobs of external lanes, and say what became of them."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from console.api.schemas import Asker, Body, Here, JobId, JsonRoute, Number, clamp, needs
from console.context import ConsoleContext
from console.problems import described
from mayfly import json_text, log_messages
from mayfly.admin.auth import WORK
from mayfly.clock import monotonic
from mayfly.errors import BadResult, NotExternal, ResultTooLarge
from mayfly.job import Job
from mayfly.queue import external, policy
from mayfly.queue.external import ClaimRef, Pulled, PullOptions
from mayfly.queue.failure import Failure
from mayfly.queue.outcome import RESULT_LIMIT, Dead, JobControl, Outcome, OutcomeKind, Retry

MAX_PULLED = 100
MAX_POLL_SECONDS = 20
LEASES = (1, 3600)  # seconds
MAX_RETRY_SECONDS = 30 * 86_400
MAX_LANES = 20

router = APIRouter(route_class=JsonRoute, tags=["work"], dependencies=[needs(WORK)])


class PullRequest(Body):
    """`n` from 1 to 100 jobs, `lease` from 1 to 3600 seconds, `wait` up to 20 seconds; beyond that, the nearest."""

    lanes: Annotated[list[str], Field(min_length=1, max_length=MAX_LANES)]
    n: int = 1
    lease: Number = 60
    wait: Number = 0


class PulledJob(BaseModel):
    """`claim` is to be sent with whatever is said of the job."""

    id: int
    type: str
    lane: str
    payload: dict[str, Any]
    attempt: int
    max_attempts: int
    group_key: str | None
    claim: str
    lease_until: datetime


class PulledJobs(BaseModel):
    jobs: list[PulledJob]


class ClaimRequest(Body):
    claim: Annotated[str, Field(max_length=100)]


class DoneRequest(ClaimRequest):
    result: Any = None


class FailRequest(ClaimRequest):
    """With `retry` false the job is dead; `after` is when it is tried again, in seconds, instead of the backoff."""

    error: Annotated[str, Field(min_length=1)]
    retry: bool = True
    after: Number | None = None


class ExtendRequest(ClaimRequest):
    lease: Number = 60


class SettleResponse(BaseModel):
    """`outcome` is one of done, failed (it will be tried again) and dead; `repeated`: it was settled so before."""

    id: int
    outcome: str
    repeated: bool
    run_at: datetime | None = None


class ExtendResponse(BaseModel):
    """`cancelled` says why somebody wants the job to end, if anybody does."""

    id: int
    lease_until: datetime
    cancelled: str | None


@router.post("/pull", responses=described(422))
async def pull(request: Request, site: Here, token: Asker, wish: PullRequest) -> PulledJobs:
    """Take due jobs of the first of these lanes that has any; wait for some if there are none."""
    for lane in wish.lanes:
        if not site.settings.lane(lane).external:
            raise NotExternal(lane)
    until = monotonic() + clamp(wish.wait, 0, MAX_POLL_SECONDS)
    lease = timedelta(seconds=clamp(wish.lease, *LEASES))
    meant = PullOptions(token.name, tuple(dict.fromkeys(wish.lanes)), int(clamp(wish.n, 1, MAX_PULLED)), lease)
    in_vain = False
    while await site.watch.wait(meant.lanes, until, in_vain) and not await request.is_disconnected():
        in_vain = True
        pulled = await site.run(external.pull, site.database, site.books, meant)
        if pulled.jobs and await request.is_disconnected():
            await site.run(external.release_pulled, site.books, pulled)
            break
        if pulled.jobs:
            return PulledJobs(jobs=[_response(pulled, job) for job in pulled.jobs])
    return PulledJobs(jobs=[])


@router.post("/jobs/{job_id}/done", responses=described(409, 413, 422))
async def done(site: Here, job_id: JobId, said: DoneRequest) -> SettleResponse:
    """The work was done. Said again with the same claim it changes nothing, and is well."""
    result = None if said.result is None else _result(said.result)
    return await site.run(_finish, site, job_id, said.claim, partial(_after_return, result=result))


@router.post("/jobs/{job_id}/fail", responses=described(409, 422))
async def fail(site: Here, job_id: JobId, said: FailRequest) -> SettleResponse:
    """It went wrong: another try after the backoff, or the end after the last attempt."""
    after = None if said.after is None else clamp(said.after, 0, MAX_RETRY_SECONDS)
    steer = Retry(said.error, after=after) if said.retry else Dead(said.error)
    return await site.run(_finish, site, job_id, said.claim, partial(_after_failure, site=site, steer=steer))


@router.post("/jobs/{job_id}/extend", responses=described(409, 422))
async def extend(site: Here, job_id: JobId, said: ExtendRequest) -> ExtendResponse:
    """Hold the job for longer, from now on; and hear whether somebody wants it to end."""
    lease = timedelta(seconds=clamp(said.lease, *LEASES))
    hold = ClaimRef.from_text(job_id, said.claim)
    found = await site.run(external.extend, site.database, hold, lease)
    return ExtendResponse(id=job_id, lease_until=found.lease_until, cancelled=found.cancel_reason)


def _finish(site: ConsoleContext, job_id: int, claim: str, judge: external.Judge) -> SettleResponse:
    hold = ClaimRef.from_text(job_id, claim)
    job, outcome, is_repeated = external.finish(site.database, site.books, hold, judge, site.announce)
    kind = outcome.kind.value
    if outcome.kind is not OutcomeKind.DONE and not is_repeated:
        reason = (outcome.error or "").partition("\n")[0]
        site.log.say(log_messages.job_failed(job.id, job.type, job.attempt, job.max_attempts, kind, reason))
    return SettleResponse(id=job_id, outcome=kind, repeated=is_repeated, run_at=outcome.run_at)


def _after_return(_job: Job, result: str | None) -> Outcome:
    return policy.after_return(result)


def _after_failure(job: Job, site: ConsoleContext, steer: JobControl) -> Outcome:
    return policy.after_control(job, steer, Failure.from_reason(str(steer)), site.chances())


def _result(given: Any) -> str:
    try:
        text = json_text.encode(given)
    except (ValueError, RecursionError) as error:
        raise BadResult(str(error)) from error
    size = len(text.encode())
    if size > RESULT_LIMIT:
        raise ResultTooLarge(size, RESULT_LIMIT)
    return text


def _response(pulled: Pulled, job: Job) -> PulledJob:
    return PulledJob(
        id=job.id,
        type=job.type,
        lane=job.lane,
        payload=job.payload,
        attempt=job.attempt,
        max_attempts=job.max_attempts,
        group_key=job.group_key,
        claim=pulled.hold(job).text,
        lease_until=pulled.lease_until.astimezone(UTC),
    )
