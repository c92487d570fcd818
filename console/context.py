"""What every request works with: settings, the database, who waits, who asks too often."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from console.long_poll import LongPoll
from console.rate_limit import RateLimiter
from mayfly.admin.auth import Token
from mayfly.client import App
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.log import Log
from mayfly.monitoring.on_dead import Announce, announcer
from mayfly.queue import external
from mayfly.queue.external import ExternalTotals
from mayfly.queue.policy import Backoff, RetryContext
from mayfly.settings import Settings

T = TypeVar("T")


@dataclass(frozen=True)
class ConsoleContext:
    settings: Settings
    database: Database
    producer: App  # its door, its handlers
    log: Log
    books: ExternalTotals
    rate: RateLimiter
    threads: CapacityLimiter  # one for each connection: who waits for either waits in line

    @cached_property
    def watch(self) -> LongPoll:
        """Where those wait who pull."""
        return LongPoll(self._look_for_work)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Something that asks the database, in a thread: nobody else waits for it."""
        return await run_sync(partial(work, *arguments), limiter=self.threads)

    async def look(self, work: Callable[[Connection], T]) -> T:
        return await self.run(self.database.read, work)

    async def _look_for_work(self, most: Mapping[str, int]) -> Mapping[str, int]:
        now = self.database.clock.now()
        return await self.look(lambda connection: external.due(connection, most, now))

    def chances(self) -> RetryContext:
        """How a job comes back that failed outside: nobody here knows a handler's own backoff."""
        usual = Backoff(self.settings.backoff_base, self.settings.backoff_cap)
        return RetryContext(self.database.clock.now(), usual, random.random())  # noqa: S311 - spreads retries

    @property
    def announce(self) -> Announce | None:
        """To be called before a death is written, where somebody wants to know."""
        return announcer(self.settings, self.database) if self.settings.hooks_on_dead else None


def context_of(request: Request) -> ConsoleContext:
    site: ConsoleContext = request.app.state.site
    return site


def token_of(request: Request) -> Token:
    """Whose request it is; the door has seen to it that there is one."""
    token: Token = request.state.token
    return token
