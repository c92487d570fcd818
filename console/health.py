"""`/livez` and `/health`: is this process alive, is Mayfly healthy? Both need no token and show no secrets."""

import asyncio
from collections.abc import Sequence
from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from console.problems import described
from mayfly import log_messages
from mayfly.admin import health
from mayfly.admin.health import Problem, ProblemKind, Severity
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import DatabaseError
from mayfly.log import Log
from mayfly.settings import Settings

CACHE_SECONDS = 1.0  # /health needs no token, so it runs at most one check per second
TIMEOUT_SECONDS = 5.0
DATABASE_UNAVAILABLE = "The database is unavailable; see the log of the console."
DATABASE_TIMED_OUT = f"The database did not respond within {TIMEOUT_SECONDS:g} s."

router = APIRouter(tags=["health"])


class LiveResponse(BaseModel):
    status: str = "alive"


class ProblemResponse(BaseModel):
    reason: str
    text: str


class HealthResponse(BaseModel):
    """`status`: ok, perhaps with `warnings`; or degraded, with `reasons`. `cycles`: seconds since the last cycle of
    each host. `waits`: seconds that the oldest due job has waited, for each lane with a latency target. `dead`: jobs
    that died in the last hour and are still dead, by lane."""

    status: str
    reasons: list[ProblemResponse] = []
    warnings: list[ProblemResponse] = []
    cycles: dict[str, float] = {}
    waits: dict[str, float] = {}
    dead: dict[str, int] = {}


class HealthCheck:
    """Uses its own connection, because it matters most when all others are busy or hang."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._database = Database(settings.database_url.get_secret_value())
        self._checking: asyncio.Task[HealthResponse] | None = None
        self._checked_at = 0.0

    async def find(self) -> HealthResponse:
        """Requests during a check, or shortly after it, share its result."""
        if self._checking is None or (self._checking.done() and monotonic() - self._checked_at > CACHE_SECONDS):
            self._checking = asyncio.create_task(self._check())
        try:
            return await asyncio.wait_for(asyncio.shield(self._checking), TIMEOUT_SECONDS)
        except TimeoutError:
            return _database_problem(DATABASE_TIMED_OUT)

    async def _check(self) -> HealthResponse:
        try:
            return await run_sync(self._read)
        except DatabaseError as error:
            self._log.write(log_messages.request_failed("GET", "/health", str(error)))
            return _database_problem(DATABASE_UNAVAILABLE)
        finally:
            self._checked_at = monotonic()

    def _read(self) -> HealthResponse:
        """Without notices: the reason of a pause is not for everybody."""
        now, settings = self._database.clock.now(), self._settings
        status = self._database.read(lambda connection: health.read_status(connection, settings, now))
        snapshot, waits = status.snapshot, health.lane_waits(status.snapshot, settings)
        return HealthResponse(
            status=status.name,
            reasons=_responses(status.at_least(Severity.DEGRADED)),
            warnings=_responses(status.at(Severity.WARNING)),
            cycles={each.host: round(each.age_seconds, 1) for each in snapshot.hosts},
            waits={lane: round(waited.total_seconds(), 1) for lane, waited in waits.items()},
            dead=dict(snapshot.dead),
        )


def _responses(found: Sequence[Problem]) -> list[ProblemResponse]:
    return [ProblemResponse(reason=each.kind, text=each.text) for each in found]


def _database_problem(text: str) -> HealthResponse:
    return HealthResponse(status=health.DEGRADED, reasons=[ProblemResponse(reason=ProblemKind.DATABASE, text=text)])


TOO_MANY_REQUESTS: dict[int | str, dict[str, Any]] = {429: described()[429]}


@router.get("/livez", responses=TOO_MANY_REQUESTS)
async def livez() -> LiveResponse:
    """Whether this process responds; the database is not queried."""
    return LiveResponse()


@router.get(
    "/health", responses={**TOO_MANY_REQUESTS, 503: {"model": HealthResponse, "description": "Mayfly is degraded"}}
)
async def get_health(request: Request, response: Response) -> HealthResponse:
    """Whether Mayfly is healthy: the database, the last cycle of each host, waits against targets, recent deaths."""
    check: HealthCheck = request.app.state.health_check
    found = await check.find()
    response.status_code = 503 if found.reasons else 200
    return found
