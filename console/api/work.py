"""Workers in any language: pull jobs of external lanes, and say what became of them."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from console.answers import described
from console.api.access import Asker, Here, JsonRoute, needs
from console.api.shapes import Body, JobId, Number, clamp
from console.site import Site
from mayfly import events, jsontext, verdict
from mayfly.access.scopes import WORK
from mayfly.clock import monotonic
from mayfly.errors import BadResult, NotExternal, ResultTooLarge
from mayfly.job import Job
from mayfly.jobs import outside
from mayfly.jobs.outside import Hold, Pulled, Wish
from mayfly.outcome import RESULT_LIMIT, Dead, Kind, Outcome, Retry, Steer
from mayfly.schema import JOBS
from mayfly.wording import Failure

MOST_PULLED = 100
LONGEST_POLL_SECONDS = 20
LEASES = (1, 3600)  # seconds
LONGEST_RETRY_SECONDS = 30 * 86_400
MOST_LANES = 20

router = APIRouter(route_class=JsonRoute, tags=["work"], dependencies=[needs(WORK)])


class PullWish(Body):
    """`n` from 1 to 100 jobs, `lease` from 1 to 3600 seconds, `wait` up to 20 seconds; beyond that, the nearest."""

    lanes: Annotated[list[str], Field(min_length=1, max_length=MOST_LANES)]
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


class Claim(Body):
    claim: Annotated[str, Field(max_length=100)]


class Done(Claim):
    result: Any = None


class Failed(Claim):
    """With `retry` false the job is dead; `after` is when it is tried again, in seconds, instead of the backoff."""

    error: Annotated[str, Field(min_length=1)]
    retry: bool = True
    after: Number | None = None


class Longer(Claim):
    lease: Number = 60


class Settled(BaseModel):
    """`outcome` is one of done, failed (it will be tried again) and dead; `repeated`: it was settled so before."""

    id: int
    outcome: str
    repeated: bool
    run_at: datetime | None = None


class Extended(BaseModel):
    """`cancelled` says why somebody wants the job to end, if anybody does."""

    id: int
    lease_until: datetime
    cancelled: str | None


@router.post("/pull", responses=described(422))
async def pull(request: Request, site: Here, token: Asker, wish: PullWish) -> PulledJobs:
    """Take due jobs of the first of these lanes that has any; wait for some if there are none."""
    for lane in wish.lanes:
        if not site.settings.lane(lane).external:
            raise NotExternal(lane)
    until = monotonic() + clamp(wish.wait, 0, LONGEST_POLL_SECONDS)
    lease = timedelta(seconds=clamp(wish.lease, *LEASES))
    meant = Wish(token.name, tuple(dict.fromkeys(wish.lanes)), int(clamp(wish.n, 1, MOST_PULLED)), lease)
    in_vain = False
    while await site.watch.wait(meant.lanes, until, in_vain) and not await request.is_disconnected():
        in_vain = True
        pulled = await site.run(outside.pull, site.database, JOBS, site.books, meant)
        if pulled.jobs and await request.is_disconnected():
            await site.run(outside.give_back, site.books, pulled)
            break
        if pulled.jobs:
            return PulledJobs(jobs=[_told(pulled, job) for job in pulled.jobs])
    return PulledJobs(jobs=[])


@router.post("/jobs/{job_id}/done", responses=described(409, 413, 422))
async def done(site: Here, job_id: JobId, said: Done) -> Settled:
    """The work was done. Said again with the same claim it changes nothing, and is well."""
    result = None if said.result is None else _result(said.result)
    return await site.run(_finish, site, job_id, said.claim, partial(_after_return, result=result))


@router.post("/jobs/{job_id}/fail", responses=described(409, 422))
async def fail(site: Here, job_id: JobId, said: Failed) -> Settled:
    """It went wrong: another try after the backoff, or the end after the last attempt."""
    after = None if said.after is None else clamp(said.after, 0, LONGEST_RETRY_SECONDS)
    steer = Retry(said.error, after=after) if said.retry else Dead(said.error)
    return await site.run(_finish, site, job_id, said.claim, partial(_after_failure, site=site, steer=steer))


@router.post("/jobs/{job_id}/extend", responses=described(409, 422))
async def extend(site: Here, job_id: JobId, said: Longer) -> Extended:
    """Hold the job for longer, from now on; and hear whether somebody wants it to end."""
    lease = timedelta(seconds=clamp(said.lease, *LEASES))
    hold = Hold.from_text(job_id, said.claim)
    found = await site.run(outside.extend, site.database, JOBS, hold, lease)
    return Extended(id=job_id, lease_until=found.lease_until, cancelled=found.cancel_reason)


def _finish(site: Site, job_id: int, claim: str, judge: outside.Judge) -> Settled:
    hold = Hold.from_text(job_id, claim)
    job, outcome, is_repeated = outside.finish(site.database, JOBS, site.books, hold, judge, site.announce)
    kind = outcome.kind.value
    if outcome.kind is not Kind.DONE and not is_repeated:
        reason = (outcome.error or "").partition("\n")[0]
        site.log.say(events.job_failed(job.id, job.type, job.attempt, job.max_attempts, kind, reason))
    return Settled(id=job_id, outcome=kind, repeated=is_repeated, run_at=outcome.run_at)


def _after_return(_job: Job, result: str | None) -> Outcome:
    return verdict.after_return(result)


def _after_failure(job: Job, site: Site, steer: Steer) -> Outcome:
    return verdict.after_steer(job, steer, Failure.from_reason(str(steer)), site.chances())


def _result(given: Any) -> str:
    try:
        text = jsontext.encode(given)
    except (ValueError, RecursionError) as error:
        raise BadResult(str(error)) from error
    size = len(text.encode())
    if size > RESULT_LIMIT:
        raise ResultTooLarge(size, RESULT_LIMIT)
    return text


def _told(pulled: Pulled, job: Job) -> PulledJob:
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
