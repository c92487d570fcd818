"""Manual actions: retry, cancel, discard and delay jobs; pause and resume lanes and types; set a lane's runners."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, ConfigDict, Field

from console.api.schemas import (
    MAX_JOBS,
    Context,
    IdInBody,
    Integer,
    JobId,
    JsonRoute,
    PayloadField,
    RequestBody,
    SearchText,
    StorableText,
    Timestamp,
    TokenActor,
    documented,
    one_of,
    requires,
)
from console.problems import described
from mayfly.admin.actions import CANCEL, DELAY, DISCARD, RETRY, Verb, act, count_matching
from mayfly.admin.auth import OPERATE
from mayfly.admin.filters import JobFilter, parse_field
from mayfly.admin.jobs import list_jobs
from mayfly.admin.lanes import MAX_WORKERS_SETTABLE, end_pause, set_max_workers, start_pause
from mayfly.errors import NothingToDo, UnknownJob
from mayfly.queue.pauses import LANE, TYPE
from mayfly.schema.tables import NAME_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[requires(OPERATE)])

Name = Annotated[StorableText, Path(min_length=1, max_length=NAME_LENGTH)]
ONE, MANY = described(404, 409, 422), described(422)


class ReasonRequest(RequestBody):
    reason: str | None = None


class DelayRequest(ReasonRequest):
    until: Timestamp


# A filter needs one of these fields; with the JSON type of its value.
SELECTING = {
    **dict.fromkeys(
        ("lane", "type", "group_key", "error", "created_before", "created_after", "text", "source"), "string"
    ),
    **dict.fromkeys(("ids", "payload"), "array"),
}


def _given(name: str, kind: str) -> dict[str, Any]:
    """The schema of an object that has the field."""
    return {"required": [name], "properties": {name: {"type": kind}}}


class FilterRequest(ReasonRequest):
    """Jobs that match all given fields. With `dry_run` they are only counted, up to 10,001.

    `text` is searched in payloads, errors and keys, `payload` has fields such as `order.id=7`. `row` is the primary
    key of a row of the table of `source`.
    """

    model_config = ConfigDict(json_schema_extra={"anyOf": [_given(name, kind) for name, kind in SELECTING.items()]})

    ids: Annotated[list[IdInBody], Field(max_length=MAX_JOBS)] | None = None
    lane: StorableText | None = None
    type: StorableText | None = None
    status: str | None = None
    group_key: StorableText | None = None
    error: StorableText | None = None
    created_before: Timestamp | None = None
    created_after: Timestamp | None = None
    text: SearchText | None = None
    payload: Annotated[list[PayloadField], documented(minItems=1)] | None = None
    source: StorableText | None = None
    row: StorableText | None = None
    dry_run: bool = False

    @property
    def job_filter(self) -> JobFilter:
        fields = self.model_dump(include={*JobFilter._fields} - {"ids", "payload"})
        payload = None if self.payload is None else tuple(map(parse_field, self.payload))
        return JobFilter(ids=None if self.ids is None else tuple(self.ids), payload=payload, **fields)


class RetryFilterRequest(FilterRequest):
    status: Annotated[str, one_of(RETRY.applies_to)] | None = None


class CancelFilterRequest(FilterRequest):
    status: Annotated[str, one_of(CANCEL.applies_to)] | None = None


class DiscardFilterRequest(FilterRequest):
    status: Annotated[str, one_of(DISCARD.applies_to)] | None = None


class DelayFilterRequest(FilterRequest):
    status: Annotated[str, one_of(DELAY.applies_to)] | None = None
    until: Timestamp


class PauseRequest(ReasonRequest):
    until: Timestamp | None = None


class WorkersRequest(RequestBody):
    """`null`: each host uses its settings."""

    max_workers: Annotated[Integer, documented(minimum=1, maximum=MAX_WORKERS_SETTABLE)] | None


NO_REASON, UNTIL_RESUMED = ReasonRequest(), PauseRequest()


class ActionResponse(BaseModel):
    """`told`: running jobs that were asked to stop. `held`: skipped, because another job holds their unique key.

    `skipped`: cancelled jobs that a retry without `status` does not change.
    """

    changed: int
    told: int = 0
    held: int = 0
    skipped: int = 0


class FoundResponse(BaseModel):
    would_change: int


class PauseResponse(BaseModel):
    was_paused: bool


class ResumeResponse(PauseResponse):
    due_again: int


class Actions:
    """Actions recorded under the name of the request's token. They block, so routes run them in a thread."""

    def __init__(self, context: Context, actor: TokenActor) -> None:
        self._database, self._actor, self._redacted = context.database, actor, context.settings.redact
        self._sources = context.sources
        self.run = context.run

    def act_on_one(self, verb: Verb, job_id: int, request: ReasonRequest) -> ActionResponse:
        """Return 404 for an unknown job, 409 if its status does not allow the action."""
        job_filter = JobFilter(ids=(job_id,))
        response = self._act(verb, job_filter, request)
        if response.changed or response.told:
            return response
        [*found] = self._database.read(lambda connection: list_jobs(connection, job_filter)).jobs
        if not found:
            raise UnknownJob(job_id)
        raise NothingToDo(verb.name, job_id, found[0].status, held=bool(response.held))

    def act_on_many(self, verb: Verb, request: FilterRequest) -> ActionResponse | FoundResponse:
        job_filter = request.job_filter.without(self._redacted)  # the audit shows the filter
        if not request.dry_run:
            return self._act(verb, job_filter, request)
        found = count_matching(self._database, verb, job_filter, getattr(request, "until", None))
        return FoundResponse(would_change=found.number + found.is_more)

    def _act(self, verb: Verb, job_filter: JobFilter, request: ReasonRequest) -> ActionResponse:
        until = getattr(request, "until", None)
        result = act(self._database, verb, job_filter, self._actor, request.reason, until, sources=self._sources)
        changed, told, held, skipped = result
        return ActionResponse(changed=changed, told=told, held=held, skipped=skipped)

    def pause(self, kind: str, name: str, request: PauseRequest) -> PauseResponse:
        was_paused = start_pause(self._database, kind, name, self._actor, request.until, request.reason)
        return PauseResponse(was_paused=was_paused)

    def resume(self, kind: str, name: str) -> ResumeResponse:
        was_paused, jobs = end_pause(self._database, kind, name, self._actor)
        return ResumeResponse(was_paused=was_paused, due_again=jobs)

    def set_max_workers(self, lane: str, number: int | None) -> None:
        set_max_workers(self._database, lane, number, self._actor)


Acting = Annotated[Actions, Depends()]


@router.post("/jobs/{job_id}/retry", responses=ONE)
async def retry(actions: Acting, job_id: JobId, request: ReasonRequest = NO_REASON) -> ActionResponse:
    """Run a dead or cancelled job again with its attempts reset to 0; make a pending one due now."""
    return await actions.run(actions.act_on_one, RETRY, job_id, request)


@router.post("/jobs/{job_id}/cancel", responses=ONE)
async def cancel(actions: Acting, job_id: JobId, request: ReasonRequest = NO_REASON) -> ActionResponse:
    """Cancel a pending job; ask a running one to stop."""
    return await actions.run(actions.act_on_one, CANCEL, job_id, request)


@router.post("/jobs/{job_id}/discard", responses=ONE)
async def discard(actions: Acting, job_id: JobId, request: ReasonRequest = NO_REASON) -> ActionResponse:
    """Mark a dead job as cancelled, which removes it from the list of dead jobs."""
    return await actions.run(actions.act_on_one, DISCARD, job_id, request)


@router.post("/jobs/{job_id}/delay", responses=ONE)
async def delay(actions: Acting, job_id: JobId, request: DelayRequest) -> ActionResponse:
    """Delay a pending job until the given time."""
    return await actions.run(actions.act_on_one, DELAY, job_id, request)


@router.post("/retry", responses=MANY)
async def retry_all(actions: Acting, request: RetryFilterRequest) -> ActionResponse | FoundResponse:
    """Retry all jobs that match; without a status, the dead ones."""
    return await actions.run(actions.act_on_many, RETRY, request)


@router.post("/cancel", responses=MANY)
async def cancel_all(actions: Acting, request: CancelFilterRequest) -> ActionResponse | FoundResponse:
    """Cancel all unfinished jobs that match."""
    return await actions.run(actions.act_on_many, CANCEL, request)


@router.post("/discard", responses=MANY)
async def discard_all(actions: Acting, request: DiscardFilterRequest) -> ActionResponse | FoundResponse:
    """Discard all dead jobs that match."""
    return await actions.run(actions.act_on_many, DISCARD, request)


@router.post("/delay", responses=MANY)
async def delay_all(actions: Acting, request: DelayFilterRequest) -> ActionResponse | FoundResponse:
    """Delay all pending jobs that match until the given time."""
    return await actions.run(actions.act_on_many, DELAY, request)


@router.post("/lanes/{lane}/pause", responses=MANY)
async def pause_lane(actions: Acting, lane: Name, request: PauseRequest = UNTIL_RESUMED) -> PauseResponse:
    """Start no more jobs of a lane, on all hosts, until it is resumed or until the given time."""
    return await actions.run(actions.pause, LANE, lane, request)


@router.post("/types/{type}/pause", responses=MANY)
async def pause_type(actions: Acting, type: Name, request: PauseRequest = UNTIL_RESUMED) -> PauseResponse:
    """Start no more jobs of a type, on all hosts, until it is resumed or until the given time."""
    return await actions.run(actions.pause, TYPE, type, request)


@router.post("/lanes/{lane}/resume", responses=MANY)
async def resume_lane(actions: Acting, lane: Name) -> ResumeResponse:
    """Start jobs of the lane again, from the next cycle on."""
    return await actions.run(actions.resume, LANE, lane)


@router.post("/types/{type}/resume", responses=MANY)
async def resume_type(actions: Acting, type: Name) -> ResumeResponse:
    """Start jobs of the type again; those snoozed by the pause are due at once."""
    return await actions.run(actions.resume, TYPE, type)


@router.put("/lanes/{lane}", responses=MANY)
async def set_lane(actions: Acting, lane: Name, request: WorkersRequest) -> WorkersRequest:
    """Set the maximum number of runners of the lane, on all hosts together."""
    await actions.run(actions.set_max_workers, lane, request.max_workers)
    return request
