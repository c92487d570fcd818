"""Pause and resume lanes and types, and set the number of runners of a lane."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from console.api.schemas import Context, JsonRoute, ReasonRequest, RequestBody, Timestamp, TokenActor, requires
from console.context import ConsoleContext
from console.problems import described
from mayfly.admin.audit import Actor
from mayfly.admin.auth import OPERATE
from mayfly.admin.lanes import end_pause, set_max_workers, start_pause
from mayfly.queue.pauses import LANE, TYPE
from mayfly.schema.tables import NAME_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[requires(OPERATE)])

Name = Annotated[str, Path(min_length=1, max_length=NAME_LENGTH)]
RESPONSES = described(422)


class PauseRequest(ReasonRequest):
    until: Timestamp | None = None


UNTIL_RESUMED = PauseRequest()


class WorkersRequest(RequestBody):
    """None: the settings of each host decide."""

    max_workers: int | None


class PauseResponse(BaseModel):
    was_paused: bool


class ResumeResponse(PauseResponse):
    due_again: int


@router.post("/lanes/{lane}/pause", responses=RESPONSES)
async def pause_lane(
    context: Context, actor: TokenActor, lane: Name, request: PauseRequest = UNTIL_RESUMED
) -> PauseResponse:
    """Start no more jobs of a lane, on all hosts, until it is resumed or until the given time."""
    return await _pause(context, LANE, lane, actor, request)


@router.post("/types/{type}/pause", responses=RESPONSES)
async def pause_type(
    context: Context, actor: TokenActor, type: Name, request: PauseRequest = UNTIL_RESUMED
) -> PauseResponse:
    """Start no more jobs of a type, on all hosts, until it is resumed or until the given time."""
    return await _pause(context, TYPE, type, actor, request)


@router.post("/lanes/{lane}/resume", responses=RESPONSES)
async def resume_lane(context: Context, actor: TokenActor, lane: Name) -> ResumeResponse:
    """Start jobs of the lane again, from the next cycle on."""
    was_paused, jobs = await context.run(end_pause, context.database, LANE, lane, actor)
    return ResumeResponse(was_paused=was_paused, due_again=jobs)


@router.post("/types/{type}/resume", responses=RESPONSES)
async def resume_type(context: Context, actor: TokenActor, type: Name) -> ResumeResponse:
    """Start jobs of the type again; those that were delayed by the pause are due at once."""
    was_paused, jobs = await context.run(end_pause, context.database, TYPE, type, actor)
    return ResumeResponse(was_paused=was_paused, due_again=jobs)


@router.put("/lanes/{lane}", responses=RESPONSES)
async def set_lane(context: Context, actor: TokenActor, lane: Name, request: WorkersRequest) -> WorkersRequest:
    """Set how many runners the lane may have, on all hosts together."""
    await context.run(set_max_workers, context.database, lane, request.max_workers, actor)
    return request


async def _pause(context: ConsoleContext, kind: str, name: str, actor: Actor, request: PauseRequest) -> PauseResponse:
    given = (context.database, kind, name, actor, request.until, request.reason)
    return PauseResponse(was_paused=await context.run(start_pause, *given))
