"""Hold up lanes and types, let them go on, and set how many runners a lane may have: in the name of a token."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from console.api.actions import ReasonRequest
from console.api.schemas import Asker, Body, Here, JsonRoute, Timestamp, needs
from console.context import ConsoleContext
from console.problems import described
from mayfly import admin
from mayfly.admin.audit import HTTP, Actor
from mayfly.admin.auth import OPERATE, Token
from mayfly.queue.pauses import LANE, TYPE
from mayfly.schema.tables import NAME_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[needs(OPERATE)])

Name = Annotated[str, Path(min_length=1, max_length=NAME_LENGTH)]
ANSWERS = described(422)


class PauseRequest(ReasonRequest):
    until: Timestamp | None = None


UNTIL_RESUMED = PauseRequest()


class WorkersRequest(Body):
    """None: as the settings of each host say."""

    max_workers: int | None


class PauseResponse(BaseModel):
    was_paused: bool


class ResumeResponse(PauseResponse):
    due_again: int


@router.post("/lanes/{lane}/pause", responses=ANSWERS)
async def pause_lane(site: Here, token: Asker, lane: Name, said: PauseRequest = UNTIL_RESUMED) -> PauseResponse:
    """Start nothing more in a lane, on all hosts, until it is resumed or the time has come."""
    return await site.run(_pause, site, token, LANE, lane, said)


@router.post("/lanes/{lane}/resume", responses=ANSWERS)
async def resume_lane(site: Here, token: Asker, lane: Name) -> ResumeResponse:
    return await site.run(_resume, site, token, LANE, lane)


@router.put("/lanes/{lane}", responses=ANSWERS)
async def set_lane(site: Here, token: Asker, lane: Name, said: WorkersRequest) -> WorkersRequest:
    """How many runners the lane may have, on all hosts together, until it is set anew."""
    await site.run(admin.set_lane, site.database, lane, said.max_workers, Actor(token.name, HTTP))
    return said


@router.post("/types/{type}/pause", responses=ANSWERS)
async def pause_type(site: Here, token: Asker, type: Name, said: PauseRequest = UNTIL_RESUMED) -> PauseResponse:
    """Start no more jobs of a type."""
    return await site.run(_pause, site, token, TYPE, type, said)


@router.post("/types/{type}/resume", responses=ANSWERS)
async def resume_type(site: Here, token: Asker, type: Name) -> ResumeResponse:
    """What had been put off is due at once."""
    return await site.run(_resume, site, token, TYPE, type)


def _pause(site: ConsoleContext, token: Token, kind: str, name: str, said: PauseRequest) -> PauseResponse:
    actor = Actor(token.name, HTTP)
    return PauseResponse(was_paused=admin.pause(site.database, kind, name, actor, said.until, said.reason))


def _resume(site: ConsoleContext, token: Token, kind: str, name: str) -> ResumeResponse:
    was_paused, jobs = admin.resume(site.database, kind, name, Actor(token.name, HTTP))
    return ResumeResponse(was_paused=was_paused, due_again=jobs)
