"""External workers, in any language: pull jobs of external lanes and report their outcome."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from console.api.schemas import Context, JobId, JsonRoute, Number, RequestBody, RequestToken, clamp, requires
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
LEASE_SECONDS = (1, 3600)
MAX_RETRY_SECONDS = 30 * 86_400
MAX_LANES = 20

router = APIRouter(route_class=JsonRoute, tags=["work"], dependencies=[requires(WORK)])


class PullRequest(RequestBody):
    """`n`: 1–100 jobs; `lease`: 1–3600 seconds; `wait`: 0–20 seconds. Other values are brought into these ranges."""

    lanes: Annotated[list[str], Field(min_length=1, max_length=MAX_LANES)]
    n: int = 1
    lease: Number = 60
    wait: Number = 0


class PulledJob(BaseModel):
    """Send `claim` with every request about the job."""

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


class ClaimRequest(RequestBody):
    claim: Annotated[str, Field(max_length=100)]


class DoneRequest(ClaimRequest):
    result: Any = None


class FailRequest(ClaimRequest):
    """With `retry` false the job is dead. `after`: seconds until the next attempt, instead of the backoff."""

    error: Annotated[str, Field(min_length=1)]
    retry: bool = True
    after: Number | None = None


class ExtendRequest(ClaimRequest):
    lease: Number = 60


class SettleResponse(BaseModel):
    """`outcome`: done, failed (it will be retried) or dead. `repeated`: this outcome had been reported before."""

    id: int
    outcome: str
    repeated: bool
    run_at: datetime | None = None


class ExtendResponse(BaseModel):
    """`cancelled`: the reason if cancellation was requested, else null."""

    id: int
    lease_until: datetime
    cancelled: str | None


@router.post("/pull", responses=described(422))
async def pull(request: Request, context: Context, token: RequestToken, wanted: PullRequest) -> PulledJobs:
    """Claim due jobs of the first lane that has any; wait for some if there are none."""
    for lane in wanted.lanes:
        if not context.settings.lane(lane).external:
            raise NotExternal(lane)
    lease = timedelta(seconds=clamp(wanted.lease, *LEASE_SECONDS))
    lanes, size = tuple(dict.fromkeys(wanted.lanes)), int(clamp(wanted.n, 1, MAX_PULLED))
    until = monotonic() + clamp(wanted.wait, 0, MAX_POLL_SECONDS)
    return await _pull(request, context, PullOptions(token.name, lanes, size, lease), until)


async def _pull(request: Request, context: ConsoleContext, options: PullOptions, until: float) -> PulledJobs:
    was_in_vain = False
    while await context.long_poll.wait(options.lanes, until, was_in_vain) and not await request.is_disconnected():
        was_in_vain = True
        pulled = await context.run(external.pull, context.database, context.totals, options)
        if pulled.jobs and await request.is_disconnected():
            await context.run(external.release_pulled, context.totals, pulled)
            break
        if pulled.jobs:
            return PulledJobs(jobs=[_response(pulled, job) for job in pulled.jobs])
    return PulledJobs(jobs=[])


@router.post("/jobs/{job_id}/done", responses=described(409, 413, 422))
async def done(context: Context, job_id: JobId, request: DoneRequest) -> SettleResponse:
    """Report success. Repeating it with the same claim changes nothing and returns 200."""
    result = None if request.result is None else _result(request.result)
    return await context.run(_finish, context, job_id, request.claim, partial(_decide_success, result=result))


@router.post("/jobs/{job_id}/fail", responses=described(409, 422))
async def fail(context: Context, job_id: JobId, request: FailRequest) -> SettleResponse:
    """Report a failure: the job is retried after the backoff, or dead after its last attempt."""
    after = None if request.after is None else clamp(request.after, 0, MAX_RETRY_SECONDS)
    control = Retry(request.error, after=after) if request.retry else Dead(request.error)
    return await context.run(
        _finish, context, job_id, request.claim, partial(_decide_failure, context=context, control=control)
    )


@router.post("/jobs/{job_id}/extend", responses=described(409, 422))
async def extend(context: Context, job_id: JobId, request: ExtendRequest) -> ExtendResponse:
    """Extend the lease, counted from now; the response says whether cancellation was requested."""
    lease = timedelta(seconds=clamp(request.lease, *LEASE_SECONDS))
    claim_ref = ClaimRef.from_text(job_id, request.claim)
    found = await context.run(external.extend, context.database, claim_ref, lease)
    return ExtendResponse(id=job_id, lease_until=found.lease_until, cancelled=found.cancel_reason)


def _finish(context: ConsoleContext, job_id: int, claim: str, decide: external.Judge) -> SettleResponse:
    claim_ref = ClaimRef.from_text(job_id, claim)
    job, outcome, is_repeated = external.finish(context.database, context.totals, claim_ref, decide, context.announce)
    kind = outcome.kind.value
    if outcome.kind is not OutcomeKind.DONE and not is_repeated:
        reason = (outcome.error or "").partition("\n")[0]
        context.log.say(log_messages.job_failed(job.id, job.type, job.attempt, job.max_attempts, kind, reason))
    return SettleResponse(id=job_id, outcome=kind, repeated=is_repeated, run_at=outcome.run_at)


def _decide_success(_job: Job, result: str | None) -> Outcome:
    return policy.after_return(result)


def _decide_failure(job: Job, context: ConsoleContext, control: JobControl) -> Outcome:
    return policy.after_control(job, control, Failure.from_reason(str(control)), context.retry_context())


def _result(given: Any) -> str:
    try:
        text = json_text.encode(given)
    except (ValueError, RecursionError) as error:
        raise BadResult(str(error)) from error
    size = len(text.encode())
    if size > RESULT_LIMIT:
        advice = "store it elsewhere and send a reference"
        raise ResultTooLarge(f"it has {size:,} bytes, the limit is {RESULT_LIMIT:,}; {advice}")
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
        claim=pulled.claim_of(job).text,
        lease_until=pulled.lease_until.astimezone(UTC),
    )
