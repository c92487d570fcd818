"""`/livez` and `/health`: is this process alive, is Mayfly healthy? Open to all, without secrets."""

import asyncio
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from console.problems import described
from mayfly import log_messages
from mayfly.admin import health
from mayfly.admin.health import HealthSnapshot, Problem, ProblemKind, Severity, lane_waits, problems
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseError
from mayfly.log import Log
from mayfly.settings import Settings

CACHE_SECONDS = 1.0  # everybody may ask; the database is asked once a second at most
TIMEOUT_SECONDS = 5.0
DATABASE_AWAY = Problem(
    ProblemKind.DATABASE, Severity.DOWN, "The database cannot be used; the console's log says why."
)
DATABASE_SLOW = Problem(
    ProblemKind.DATABASE, Severity.DOWN, f"The database has not answered for {TIMEOUT_SECONDS:g} s."
)

router = APIRouter(tags=["health"])


class LiveResponse(BaseModel):
    status: str = "alive"


class ProblemResponse(BaseModel):
    reason: str
    text: str


class HealthResponse(BaseModel):
    """Seconds since the last cycle of each host, seconds that the oldest due job of a lane with a target has waited,
    and how many jobs died in the last hour, by lane."""

    status: str
    reasons: list[ProblemResponse] = []
    cycles: dict[str, float] = {}
    waits: dict[str, float] = {}
    dead: dict[str, int] = {}

    @classmethod
    def of(
        cls, found: list[Problem], snapshot: HealthSnapshot | None = None, settings: Settings | None = None
    ) -> "HealthResponse":
        """Problems below DEGRADED are for `mayfly status`: nothing is late, dead or stopped because of them."""
        serious = [each for each in found if each.severity >= Severity.DEGRADED]
        response = cls(
            status="degraded" if serious else "ok",
            reasons=[ProblemResponse(reason=each.kind, text=each.text) for each in serious],
        )
        if snapshot is not None and settings is not None:
            waits = lane_waits(snapshot, settings)
            response.cycles = {each.host: round(each.age_seconds, 1) for each in snapshot.hosts}
            response.waits = {lane: round(waited.total_seconds(), 1) for lane, waited in waits.items()}
            response.dead = dict(snapshot.dead)
        return response


class HealthCheck:
    """Looks on a connection of its own: when all others are busy, or hang, it is asked most."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._database = Database(settings.database_url.get_secret_value())
        self._looking: asyncio.Task[HealthResponse] | None = None
        self._found_at = 0.0

    async def find(self) -> HealthResponse:
        """Whoever asks while somebody else does, or just has, gets the same answer."""
        if self._looking is None or (self._looking.done() and monotonic() - self._found_at > CACHE_SECONDS):
            self._looking = asyncio.create_task(self._look())
        try:
            return await asyncio.wait_for(asyncio.shield(self._looking), TIMEOUT_SECONDS)
        except TimeoutError:
            return HealthResponse.of([DATABASE_SLOW])

    async def _look(self) -> HealthResponse:
        try:
            snapshot = await run_sync(self._snapshot)
        except DatabaseError as error:
            self._log.say(log_messages.request_failed("GET", "/health", str(error)))
            return HealthResponse.of([DATABASE_AWAY])
        finally:
            self._found_at = monotonic()
        return HealthResponse.of(problems(snapshot, self._settings), snapshot, self._settings)

    def _snapshot(self) -> HealthSnapshot:
        now = self._database.clock.now()
        return self._database.read(lambda connection: health.read_snapshot(connection, self._settings, now))


TOO_OFTEN: dict[int | str, dict[str, Any]] = {429: described()[429]}


@router.get("/livez", responses=TOO_OFTEN)
async def livez() -> LiveResponse:
    """Whether this process answers; the database is not asked."""
    return LiveResponse()


@router.get("/health", responses={**TOO_OFTEN, 503: {"model": HealthResponse, "description": "It is not"}})
async def get_health(request: Request, response: Response) -> HealthResponse:
    """Whether Mayfly is well: the database, the last cycle of each host, waits against targets, recent deaths."""
    checkup: HealthCheck = request.app.state.checkup
    found = await checkup.find()
    response.status_code = 503 if found.reasons else 200
    return found
