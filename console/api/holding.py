"""Hold up lanes and types, let them go on, and set how many runners a lane may have: in the name of a token."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel

from console.answers import described
from console.api.access import Asker, Here, JsonRoute, needs
from console.api.operating import Why
from console.api.shapes import Body, Moment
from console.site import Site
from mayfly.access.scopes import OPERATE
from mayfly.access.tokens import Token
from mayfly.actor import HTTP, Actor
from mayfly.jobs import operate
from mayfly.jobs.pauses import LANE, TYPE
from mayfly.schema import JOBS, NAME_LENGTH

router = APIRouter(route_class=JsonRoute, tags=["operate"], dependencies=[needs(OPERATE)])

Name = Annotated[str, Path(min_length=1, max_length=NAME_LENGTH)]
ANSWERS = described(422)


class Pausing(Why):
    until: Moment | None = None


UNTIL_RESUMED = Pausing()


class Workers(Body):
    """None: as the settings of each host say."""

    max_workers: int | None


class Paused(BaseModel):
    was_paused: bool


class Resumed(Paused):
    due_again: int


@router.post("/lanes/{lane}/pause", responses=ANSWERS)
async def pause_lane(site: Here, token: Asker, lane: Name, said: Pausing = UNTIL_RESUMED) -> Paused:
    """Start nothing more in a lane, on all hosts, until it is resumed or the time has come."""
    return await site.run(_pause, site, token, LANE, lane, said)


@router.post("/lanes/{lane}/resume", responses=ANSWERS)
async def resume_lane(site: Here, token: Asker, lane: Name) -> Resumed:
    return await site.run(_resume, site, token, LANE, lane)


@router.put("/lanes/{lane}", responses=ANSWERS)
async def set_lane(site: Here, token: Asker, lane: Name, said: Workers) -> Workers:
    """How many runners the lane may have, on all hosts together, until it is set anew."""
    await site.run(operate.set_lane, site.database, lane, said.max_workers, Actor(token.name, HTTP))
    return said


@router.post("/types/{type}/pause", responses=ANSWERS)
async def pause_type(site: Here, token: Asker, type: Name, said: Pausing = UNTIL_RESUMED) -> Paused:
    """Start no more jobs of a type."""
    return await site.run(_pause, site, token, TYPE, type, said)


@router.post("/types/{type}/resume", responses=ANSWERS)
async def resume_type(site: Here, token: Asker, type: Name) -> Resumed:
    """What had been put off is due at once."""
    return await site.run(_resume, site, token, TYPE, type)


def _pause(site: Site, token: Token, kind: str, name: str, said: Pausing) -> Paused:
    actor = Actor(token.name, HTTP)
    return Paused(was_paused=operate.pause(site.database, JOBS, kind, name, actor, said.until, said.reason))


def _resume(site: Site, token: Token, kind: str, name: str) -> Resumed:
    was_paused, jobs = operate.resume(site.database, JOBS, kind, name, Actor(token.name, HTTP))
    return Resumed(was_paused=was_paused, due_again=jobs)
