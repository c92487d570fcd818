"""What all requests share: settings, database, log, sessions, rate limits, long polls and background tasks."""

import asyncio
import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from console.long_poll import LongPoll
from console.rate_limit import LoginAttempts, RateLimiter
from console.sessions import Session, SessionStore
from console.tasks import BackgroundTasks
from mayfly import log_messages
from mayfly.admin.auth import Token
from mayfly.client import App, use_app
from mayfly.clock import host_now, milliseconds
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DatabaseError
from mayfly.fleet.runners import OUTSIDE
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
    """One per process. Everything that runs beside requests belongs to it, and ends with `close()`."""

    def __init__(self, settings: Settings, database: Database, log: Log, connections: int) -> None:
        self.settings = settings
        self.database = database
        self.log = log
        self.producer = App(settings, database)
        self.totals = ExternalTotals(database, _totals_name(settings, database))
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
        """The name of this installation, shown wherever it could be mistaken for another."""
        return self.settings.console_environment or self.settings.host_name

    @property
    def registry(self) -> Registry:
        return self.producer.registry

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call in a thread: database calls must not block the event loop."""
        return await run_sync(partial(work, *args, **kwargs), limiter=self._threads)

    async def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `query(connection, …)` in a thread."""
        return await self.run(self.database.read, lambda connection: query(connection, *args, **kwargs))

    def now(self) -> datetime:
        """By the database's clock; by the host's as long as the database has never been reached."""
        try:
            return self.database.clock.now()
        except DatabaseError:
            return host_now()

    def refresh_clock(self) -> None:
        """Measure the database's clock again if that was long ago, in the background."""
        if self._clock_refresh is None or self._clock_refresh.done():
            self._clock_refresh = asyncio.create_task(self._refresh_clock())

    async def _refresh_clock(self) -> None:
        with suppress(DatabaseError):  # requests that need the database report it
            await self.run(self.database.refresh_clock, CLOCK_MAX_AGE_SECONDS)

    async def _count_due(self, max_by_lane: Mapping[str, int]) -> Mapping[str, int]:
        return await self.read(external.due, max_by_lane, self.database.clock.now())

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
        log.say(log_messages.handler_module_failed(module, reason))
    use_app(context.producer)
    return context


def _totals_name(settings: Settings, database: Database) -> str:
    name = f"{OUTSIDE}{settings.host_name[:20]}-{os.getpid()}-{milliseconds(database.clock.now())}"
    return name[:NAME_LENGTH]


def context_of(request: Request) -> ConsoleContext:
    context: ConsoleContext = request.state.context
    return context


def session_of(request: Request) -> Session | None:
    session: Session | None = request.state.session
    return session


def token_of(request: Request) -> Token:
    """AuthMiddleware has refused API requests without one."""
    token: Token = request.state.token
    return token


def client_address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
