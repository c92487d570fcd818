"""What can be done to jobs: the verbs of the command line, in the name of a token."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from console.answers import described
from console.api.access import Asker, Here, JsonRoute, needs
from console.api.shapes import MOST_JOBS, Body, JobId, Moment
from console.site import Site
from mayfly.access.scopes import OPERATE
from mayfly.access.tokens import Token
from mayfly.actor import HTTP, Actor
from mayfly.errors import NothingToDo, UnknownJob
from mayfly.jobs import browse, operate
from mayfly.jobs.operate import CANCEL, DELAY, DISCARD, RETRY, Cancelled, Done, Verb
from mayfly.jobs.which import Which
from mayfly.schema import JOBS

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[needs(OPERATE)])


class Why(Body):
    reason: str | None = None


class Later(Why):
    until: Moment


class Filter(Why):
    """The jobs that have all of what is named; with `dry_run` they are only counted, to 10,000 and one at most."""

    ids: Annotated[list[int] | None, Field(max_length=MOST_JOBS)] = None
    lane: str | None = None
    type: str | None = None
    status: str | None = None
    group_key: str | None = None
    error: str | None = None
    created_before: Moment | None = None
    created_after: Moment | None = None
    dry_run: bool = False

    @property
    def which(self) -> Which:
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
        return Which(ids, *named)


class LaterFilter(Filter):
    until: Moment


class Did(BaseModel):
    """`told`: they run, and were told to end. `held`: left as they are, since another job holds their unique key."""

    changed: int
    told: int = 0
    held: int = 0


class Found(BaseModel):
    would_change: int


def _did(done: Done | Cancelled) -> Did:
    if isinstance(done, Cancelled):
        return Did(changed=done.ended, told=done.told)
    return Did(changed=done.changed, told=done.told, held=done.held)


def _do(site: Site, token: Token, verb: Verb, which: Which, said: Why) -> Did:
    actor = Actor(token.name, HTTP)
    if isinstance(said, Later | LaterFilter):
        return _did(operate.delay(site.database, JOBS, which, said.until, actor, said.reason))
    carry_out: Callable[..., Done | Cancelled] = getattr(operate, verb.name)
    return _did(carry_out(site.database, JOBS, which, actor, said.reason))


def _do_to_one(site: Site, token: Token, verb: Verb, job_id: int, said: Why) -> Did:
    """404 where there is none, 409 where it is not as it would have to be."""
    which = Which(ids=(job_id,))
    did = _do(site, token, verb, which, said)
    if did.changed or did.told:
        return did
    [*found] = site.database.read(lambda connection: browse.list_jobs(connection, JOBS, which)).jobs
    if not found:
        raise UnknownJob(job_id)
    raise NothingToDo(verb.name, job_id, found[0].status, held=bool(did.held))


def _do_to_many(site: Site, token: Token, verb: Verb, said: Filter) -> Did | Found:
    if not said.dry_run:
        return _do(site, token, verb, said.which, said)
    until = said.until if isinstance(said, LaterFilter) else None
    return Found(would_change=operate.count_found(site.database, JOBS, verb, said.which, until))


ONE = described(404, 409, 422)
MANY = described(422)
NO_REASON = Why()


@router.post("/jobs/{job_id}/retry", responses=ONE)
async def retry(site: Here, token: Asker, job_id: JobId, said: Why = NO_REASON) -> Did:
    """Let a dead or cancelled job be run again, the same row, with all its attempts; one that waits is due now."""
    return await site.run(_do_to_one, site, token, RETRY, job_id, said)


@router.post("/jobs/{job_id}/cancel", responses=ONE)
async def cancel(site: Here, token: Asker, job_id: JobId, said: Why = NO_REASON) -> Did:
    """End a job that waits; tell one that runs to end."""
    return await site.run(_do_to_one, site, token, CANCEL, job_id, said)


@router.post("/jobs/{job_id}/discard", responses=ONE)
async def discard(site: Here, token: Asker, job_id: JobId, said: Why = NO_REASON) -> Did:
    """Let a dead job leave the list of the dead, as cancelled."""
    return await site.run(_do_to_one, site, token, DISCARD, job_id, said)


@router.post("/jobs/{job_id}/delay", responses=ONE)
async def delay(site: Here, token: Asker, job_id: JobId, said: Later) -> Did:
    """Put off a job that waits."""
    return await site.run(_do_to_one, site, token, DELAY, job_id, said)


@router.post("/retry", responses=MANY)
async def retry_all(site: Here, token: Asker, said: Filter) -> Did | Found:
    """Retry all jobs that match: the dead ones, where no status is named."""
    return await site.run(_do_to_many, site, token, RETRY, said)


@router.post("/cancel", responses=MANY)
async def cancel_all(site: Here, token: Asker, said: Filter) -> Did | Found:
    """Cancel all unfinished jobs that match."""
    return await site.run(_do_to_many, site, token, CANCEL, said)


@router.post("/discard", responses=MANY)
async def discard_all(site: Here, token: Asker, said: Filter) -> Did | Found:
    """Discard all dead jobs that match."""
    return await site.run(_do_to_many, site, token, DISCARD, said)


@router.post("/delay", responses=MANY)
async def delay_all(site: Here, token: Asker, said: LaterFilter) -> Did | Found:
    """Put off all jobs that match and wait."""
    return await site.run(_do_to_many, site, token, DELAY, said)
