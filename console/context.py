"""The state that all requests share: settings, database, log, sessions, rate limits, long polls, background tasks."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from secrets import token_hex
from typing import Concatenate, ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from console.long_poll import LongPoll
from console.rate_limit import LoginAttempts, RateLimiter
from console.sessions import Session, SessionStore
from console.tasks import BackgroundTasks
from mayfly import log_messages
from mayfly.admin.actions import open_sources
from mayfly.admin.auth import Token
from mayfly.client import App, use_app
from mayfly.clock import host_now, milliseconds
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DatabaseError
from mayfly.fleet.runners import EXTERNAL_PREFIX
from mayfly.log import Log
from mayfly.monitoring.hooks import Announce, announcer
from mayfly.queue import external
from mayfly.queue.external import ExternalTotals
from mayfly.queue.policy import Backoff, RetryContext
from mayfly.registry import Registry
from mayfly.schema.tables import NAME_LENGTH
from mayfly.settings import Settings

T = TypeVar("T")
P = ParamSpec("P")

CLOCK_MAX_AGE_SECONDS = 60.0
FREE_LOGINS_PER_ADDRESS, FREE_LOGINS_PER_ACCOUNT = 20, 5


class ConsoleContext:
    """One per process. It owns all background work, which ends with `close()`."""

    def __init__(self, settings: Settings, database: Database, log: Log, connections: int) -> None:
        self.settings = settings
        self.database = database
        self.log = log
        self.sources = open_sources(settings, database)
        self.producer = App(settings, database)
        self.totals = ExternalTotals(database, _totals_name(settings, database), settings.success_lanes)
        self.rate_limiter = RateLimiter(settings.console_rate)
        self.sessions = SessionStore(settings, self.environment)
        self.address_logins = LoginAttempts(FREE_LOGINS_PER_ADDRESS)
        self.account_logins = LoginAttempts(FREE_LOGINS_PER_ACCOUNT)
        self.long_poll = LongPoll(self._count_due)
        self.tasks = BackgroundTasks(log)
        self._threads = CapacityLimiter(connections)  # one per connection: requests wait for a thread
        self._clock_refresh: asyncio.Task[None] | None = None

    @property
    def environment(self) -> str:
        """The name of this installation, shown on every page and in every confirmation."""
        return self.settings.console_environment or self.settings.host_name

    @property
    def registry(self) -> Registry:
        return self.producer.registry

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `work` in a thread: database calls must not block the event loop."""
        return await run_sync(partial(work, *args, **kwargs), limiter=self._threads)

    async def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `query(connection, …)` in a thread."""
        return await self.run(self.database.read, lambda connection: query(connection, *args, **kwargs))

    def now(self) -> datetime:
        """The time of the database; of the host until the database has been reached once."""
        try:
            return self.database.clock.now()
        except DatabaseError:
            return host_now()

    def refresh_clock(self) -> None:
        """Measure the database's clock again in the background, if the last measurement is too old."""
        if self._clock_refresh is None or self._clock_refresh.done():
            self._clock_refresh = asyncio.create_task(self._refresh_clock())

    async def _refresh_clock(self) -> None:
        with suppress(DatabaseError):  # requests that need the database report it
            await self.run(self.database.refresh_clock, CLOCK_MAX_AGE_SECONDS)

    async def _count_due(self, max_by_lane: Mapping[str, int]) -> Mapping[str, int]:
        return await self.run(self._redeliver_and_count, max_by_lane)

    def _redeliver_and_count(self, max_by_lane: Mapping[str, int]) -> Mapping[str, int]:
        """Jobs of workers that have disappeared are due again without a cycle of the dispatcher."""
        for message in external.redeliver(self.database, self.totals, tuple(max_by_lane), self.announce):
            self.log.write(message)
        now = self.database.clock.now()
        return self.database.read(lambda connection: external.due(connection, max_by_lane, now))

    def retry_context(self) -> RetryContext:
        """For jobs that failed in an external worker: the console does not know a handler's own backoff."""
        backoff = Backoff(self.settings.backoff_base, self.settings.backoff_cap)
        return RetryContext(self.database.clock.now(), backoff, random.random())  # noqa: S311 - spreads retries

    @property
    def announce(self) -> Announce | None:
        """The on_dead hooks, called before a job is written as dead."""
        return announcer(self.settings, self.database) if self.settings.hooks_on_dead else None

    def close(self) -> None:
        self.long_poll.close()
        self.tasks.close()


def open_context(settings: Settings, database: Database, log: Log, connections: int) -> ConsoleContext:
    context = ConsoleContext(settings, database, log, connections)
    for module, reason in context.registry.failures.items():  # imports the handlers before the first request
        log.write(log_messages.handler_module_failed(module, reason))
    use_app(context.producer)
    return context


def _totals_name(settings: Settings, database: Database) -> str:
    # Random instead of the pid: consoles in several containers have the same pid, and perhaps the same host name.
    name = f"{EXTERNAL_PREFIX}{settings.host_name[:20]}-{token_hex(4)}-{milliseconds(database.clock.now())}"
    return name[:NAME_LENGTH]


def context_of(request: Request) -> ConsoleContext:
    context: ConsoleContext = request.state.context
    return context


def session_of(request: Request) -> Session | None:
    session: Session | None = request.state.session
    return session


def token_of(request: Request) -> Token:
    """Never None in a route: AuthMiddleware refuses API requests without a token."""
    token: Token = request.state.token
    return token


def client_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
