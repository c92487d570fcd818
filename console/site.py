"""What every request works with: settings, the database, who waits, who asks too often."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from console.rate import Rate
from console.watch import Watch
from mayfly.access.tokens import Token
from mayfly.app import App
from mayfly.backoff import Backoff
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.hooks.deaths import Announce, announcer
from mayfly.jobs import outside
from mayfly.jobs.books import Books
from mayfly.logs import Log
from mayfly.schema import JOBS
from mayfly.settings import Settings
from mayfly.verdict import Chances

T = TypeVar("T")


@dataclass(frozen=True)
class Site:
    settings: Settings
    database: Database
    producer: App  # its door, its handlers
    log: Log
    books: Books
    rate: Rate
    threads: CapacityLimiter  # one for each connection: who waits for either waits in line

    @cached_property
    def watch(self) -> Watch:
        """Where those wait who pull."""
        return Watch(self._look_for_work)

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Something that asks the database, in a thread: nobody else waits for it."""
        return await run_sync(partial(work, *arguments), limiter=self.threads)

    async def look(self, work: Callable[[Connection], T]) -> T:
        return await self.run(self.database.read, work)

    async def _look_for_work(self, most: Mapping[str, int]) -> Mapping[str, int]:
        now = self.database.clock.now()
        return await self.look(lambda connection: outside.due(connection, JOBS, most, now))

    def chances(self) -> Chances:
        """How a job comes back that failed outside: nobody here knows a handler's own backoff."""
        usual = Backoff(self.settings.backoff_base, self.settings.backoff_cap)
        return Chances(self.database.clock.now(), usual, random.random())  # noqa: S311 - spreads retries

    @property
    def announce(self) -> Announce | None:
        """To be called before a death is written, where somebody wants to know."""
        return announcer(self.settings, self.database) if self.settings.hooks_on_dead else None


def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def token_of(request: Request) -> Token:
    """Whose request it is; the door has seen to it that there is one."""
    token: Token = request.state.token
    return token
