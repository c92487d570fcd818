"""`/livez` and `/health`: whether this process lives, and whether Mayfly is well. Open to all, without secrets."""

import asyncio
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from console.answers import described
from mayfly import events, health
from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.errors import DatabaseError
from mayfly.health import Ailment, Vitals, ailments, targets_of
from mayfly.logs import Log
from mayfly.schema import JOBS
from mayfly.settings import Settings

KEPT_SECONDS = 1.0  # everybody may ask; the database is asked once a second at most
PATIENCE_SECONDS = 5.0
AWAY = Ailment("database", "The database can't be worked with; the console's log says why.")
SLOW = Ailment("database", f"The database has not answered for {PATIENCE_SECONDS:g} s.")

router = APIRouter(tags=["health"])


class Lives(BaseModel):
    status: str = "alive"


class Reason(BaseModel):
    reason: str
    text: str


class Health(BaseModel):
    """Seconds since the last cycle of each host, seconds that the oldest due job of a lane with a target has waited,
    and how many jobs died in the last hour, by lane."""

    status: str
    reasons: list[Reason] = []
    cycles: dict[str, float] = {}
    waits: dict[str, float] = {}
    dead: dict[str, int] = {}


class Checkup:
    """Looks on a connection of its own: when all others are busy, or hang, it is asked most."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._database = Database(settings.database_url.get_secret_value())
        self._looking: asyncio.Task[Health] | None = None
        self._found_at = 0.0

    async def find(self) -> Health:
        """Whoever asks while somebody else does, or just has, gets the same answer."""
        if self._looking is None or (self._looking.done() and monotonic() - self._found_at > KEPT_SECONDS):
            self._looking = asyncio.create_task(self._look())
        try:
            return await asyncio.wait_for(asyncio.shield(self._looking), PATIENCE_SECONDS)
        except TimeoutError:
            return told(Vitals(), [SLOW])

    async def _look(self) -> Health:
        try:
            vitals = await run_sync(self._vitals)
        except DatabaseError as error:
            self._log.say(events.request_failed("GET", "/health", str(error)))
            return told(Vitals(), [AWAY])
        finally:
            self._found_at = monotonic()
        return told(vitals, ailments(vitals, targets_of(self._settings), self._settings.health_dead_limit))

    def _vitals(self) -> Vitals:
        now = self._database.clock.now()
        return self._database.read(lambda connection: health.look(connection, JOBS, self._settings, now))


def told(vitals: Vitals, found: list[Ailment]) -> Health:
    return Health(
        status="ill" if found else "well",
        reasons=[Reason(reason=each.name, text=each.text) for each in found],
        cycles={host: round(age.total_seconds(), 1) for host, age in vitals.cycle_ages.items()},
        waits={lane: round(waited.total_seconds(), 1) for lane, waited in vitals.waits.items()},
        dead=dict(vitals.deaths),
    )


TOO_OFTEN: dict[int | str, dict[str, Any]] = {429: described()[429]}


@router.get("/livez", responses=TOO_OFTEN)
async def livez() -> Lives:
    """Whether this process answers; the database is not asked."""
    return Lives()


@router.get("/health", responses={**TOO_OFTEN, 503: {"model": Health, "description": "It is not"}})
async def is_well(request: Request, response: Response) -> Health:
    """Whether Mayfly is well: the database, the last cycle of each host, waits against targets, recent deaths."""
    checkup: Checkup = request.app.state.checkup
    found = await checkup.find()
    response.status_code = 503 if found.reasons else 200
    return found
