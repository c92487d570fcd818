"""External workers, in any language: pull jobs of external lanes and report their outcome."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from console.api.schemas import (
    MAX_JOBS,
    Context,
    IdInBody,
    Integer,
    JobId,
    JsonRoute,
    Number,
    RequestBody,
    RequestToken,
    clamp,
    requires,
)
from console.context import ConsoleContext
from console.problems import described
from mayfly import json_text, log_messages
from mayfly.admin.auth import WORK
from mayfly.clock import monotonic
from mayfly.errors import BadResult, NotExternal, ResultTooLarge
from mayfly.job import Job
from mayfly.monitoring.redact import first_line
from mayfly.queue import external, policy
from mayfly.queue.external import ClaimRef, Pulled, PullOptions
from mayfly.queue.outcome import RESULT_LIMIT, Dead, Failure, Outcome, OutcomeKind, Retry

MAX_PULLED = 100
MAX_POLL_SECONDS = 20
LEASE_SECONDS = (1, 3600)
MAX_RETRY_SECONDS = 30 * 86_400
MAX_LANES = 20
STALE_CLAIM = "stale_claim"

router = APIRouter(route_class=JsonRoute, tags=["work"], dependencies=[requires(WORK)])


class PullRequest(RequestBody):
    """`n`: 1–100 jobs; `lease`: 1–3600 seconds; `wait`: 0–20 seconds. Values out of range are clamped."""

    lanes: Annotated[list[str], Field(min_length=1, max_length=MAX_LANES)]
    n: Integer = 1
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


class DoneJob(DoneRequest):
    id: IdInBody


class DoneJobsRequest(RequestBody):
    jobs: Annotated[list[DoneJob], Field(min_length=1, max_length=MAX_JOBS)]


class FailRequest(ClaimRequest):
    """With `retry` false the job is dead. `after`: seconds until the next attempt; overrides the backoff."""

    error: Annotated[str, Field(min_length=1)]
    retry: bool = True
    after: Number | None = None


class ExtendRequest(ClaimRequest):
    lease: Number = 60


class SettleResponse(BaseModel):
    """`outcome`: done, failed (it will be retried) or dead. `repeated`: this outcome was already reported."""

    id: int
    outcome: str
    repeated: bool
    run_at: datetime | None = None


class DoneJobResponse(BaseModel):
    """`outcome`: done, or stale_claim: the claim is not valid, and nothing was changed."""

    id: int
    outcome: str
    repeated: bool


class DoneJobsResponse(BaseModel):
    """In the order of the request."""

    jobs: list[DoneJobResponse]


class ExtendResponse(BaseModel):
    """`cancelled`: the reason if cancellation was requested, else null."""

    id: int
    lease_until: datetime
    cancelled: str | None


@router.post("/pull", responses=described(422))
async def pull(request: Request, context: Context, token: RequestToken, wanted: PullRequest) -> PulledJobs:
    """Claim due jobs of the first lane that has any; if there are none, wait up to `wait` seconds."""
    for lane in wanted.lanes:
        if not context.settings.lane(lane).external:
            raise NotExternal(lane)
    lease = timedelta(seconds=clamp(wanted.lease, *LEASE_SECONDS))
    lanes, size = tuple(dict.fromkeys(wanted.lanes)), int(clamp(wanted.n, 1, MAX_PULLED))
    until = monotonic() + clamp(wanted.wait, 0, MAX_POLL_SECONDS)
    return await _pull(request, context, PullOptions(token.name, lanes, size, lease), until)


async def _pull(request: Request, context: ConsoleContext, options: PullOptions, until: float) -> PulledJobs:
    found_nothing = False
    while await context.long_poll.wait(options.lanes, until, found_nothing) and not await request.is_disconnected():
        found_nothing = True
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
    return await context.run(_finish, context, job_id, request.claim, _judge_done(request))


@router.post("/done", responses=described(413, 422))
async def done_jobs(context: Context, request: DoneJobsRequest) -> DoneJobsResponse:
    """Report success of several jobs. A claim that is not valid does not affect the others."""
    reports: dict[ClaimRef, external.Judge] = {}
    for each in request.jobs:
        reports.setdefault(ClaimRef.from_text(each.id, each.claim), _judge_done(each, f" of job {each.id}"))
    finished = await context.run(external.finish_all, context.database, context.totals, reports)
    return DoneJobsResponse(jobs=[_done_response(each, finished) for each in request.jobs])


def _done_response(reported: DoneJob, finished: Mapping[ClaimRef, external.Finished]) -> DoneJobResponse:
    found = finished.get(ClaimRef.from_text(reported.id, reported.claim))
    if found is None:
        return DoneJobResponse(id=reported.id, outcome=STALE_CLAIM, repeated=False)
    return DoneJobResponse(id=reported.id, outcome=found.outcome.kind.value, repeated=found.is_repeated)


@router.post("/jobs/{job_id}/fail", responses=described(409, 422))
async def fail(context: Context, job_id: JobId, request: FailRequest) -> SettleResponse:
    """Report a failure: the job is retried after the backoff, or dead after its last attempt."""
    after = None if request.after is None else clamp(request.after, 0, MAX_RETRY_SECONDS)
    control = Retry(request.error, after=after) if request.retry else Dead(request.error)

    def decide(job: Job) -> Outcome:
        return policy.after_control(job, control, Failure.from_reason(str(control)), context.retry_context())

    return await context.run(_finish, context, job_id, request.claim, decide)


@router.post("/jobs/{job_id}/extend", responses=described(409, 422))
async def extend(context: Context, job_id: JobId, request: ExtendRequest) -> ExtendResponse:
    """Extend the lease, counted from now, even if it has expired; the response shows a requested cancellation."""
    lease = timedelta(seconds=clamp(request.lease, *LEASE_SECONDS))
    claim_ref = ClaimRef.from_text(job_id, request.claim)
    found = await context.run(external.extend, context.database, claim_ref, lease)
    return ExtendResponse(id=job_id, lease_until=found.lease_until, cancelled=found.cancel_reason)


def _finish(context: ConsoleContext, job_id: int, claim: str, decide: external.Judge) -> SettleResponse:
    claim_ref = ClaimRef.from_text(job_id, claim)
    job, outcome, is_repeated = external.finish(context.database, context.totals, claim_ref, decide, context.announce)
    kind = outcome.kind.value
    if outcome.kind is not OutcomeKind.DONE and not is_repeated:
        reason = first_line(context.settings.redact, job.payload_text, outcome.error)
        context.log.write(log_messages.job_failed(job.id, job.type, job.attempt, job.max_attempts, kind, reason))
    return SettleResponse(id=job_id, outcome=kind, repeated=is_repeated, run_at=outcome.run_at)


def _judge_done(request: DoneRequest, of_job: str = "") -> external.Judge:
    outcome = policy.after_return(None if request.result is None else _result(request.result, of_job))
    return lambda _job: outcome


def _result(given: Any, of_job: str) -> str:
    try:
        text = json_text.encode(given)
    except (ValueError, RecursionError) as error:
        raise BadResult(of_job, str(error)) from error
    size = len(text.encode())
    if size > RESULT_LIMIT:
        advice = "store it elsewhere and send a reference"
        raise ResultTooLarge(of_job, f"it has {size:,} bytes; the limit is {RESULT_LIMIT:,}: {advice}")
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
