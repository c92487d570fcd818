"""Let hundreds of workers wait for jobs with one database query for all of them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mayfly.clock import monotonic

POLL_SECONDS = 0.25  # between two queries while there are waiters; a new waiter triggers a query at once

CountDue = Callable[[Mapping[str, int]], Awaitable[Mapping[str, int]]]  # due jobs by lane, each up to a maximum


@dataclass(eq=False)
class Waiter:
    lanes: Sequence[str]
    until: float  # monotonic
    found: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class LongPoll:
    """Wakes waiters first come, first served, one per due job: the others would find the job claimed."""

    def __init__(self, count_due: CountDue) -> None:
        self._count_due = count_due
        self._waiters: list[Waiter] = []
        self._nudged = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self._is_closed = False

    async def wait(self, lanes: Sequence[str], until: float, found_nothing: bool = False) -> bool:
        """Return True when a query that starts after this call finds a due job, False at the deadline.

        `found_nothing`: the last wake-up led to no job, because another transaction holds it. The waiter then waits
        for the next regular query instead of triggering one.
        """
        if self._is_closed:
            return False
        waiter = Waiter(lanes, until)
        self._waiters.append(waiter)
        if not found_nothing:
            self.nudge()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            return await waiter.found
        finally:
            with suppress(ValueError):  # already removed when it was woken
                self._waiters.remove(waiter)

    def nudge(self) -> None:
        """Query at once, for a new waiter or a new job."""
        self._nudged.set()

    def close(self) -> None:
        """End all waits, with False."""
        self._is_closed = True
        self._release(self._waiters, False)

    async def _poll(self) -> None:
        while self._waiters:
            await self._pause()
            self._nudged.clear()
            waiters = list(self._waiters)  # without those added during the query
            wanted = Counter(lane for each in waiters for lane in each.lanes)
            [due] = await asyncio.gather(self._count_due(wanted), return_exceptions=True)
            if isinstance(due, BaseException):
                self._release(waiters, due)  # each request reports the error
                continue
            self._wake(waiters, due)
            self._release([each for each in waiters if each.until <= monotonic()], False)

    async def _pause(self) -> None:
        """Wait until the next query is due, or until a nudge."""
        if self._nudged.is_set():
            return
        seconds = min(POLL_SECONDS, max(0.0, min(each.until for each in self._waiters) - monotonic()))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._nudged.wait(), seconds)

    def _wake(self, waiters: Sequence[Waiter], due: Mapping[str, int]) -> None:
        left = Counter(due)
        for each in waiters:
            lane = next((lane for lane in each.lanes if left[lane] > 0), None)
            if lane is not None:
                left[lane] -= 1
                self._release([each], True)

    def _release(self, waiters: Sequence[Waiter], result: bool | BaseException) -> None:
        for each in list(waiters):
            if not each.found.done():
                if isinstance(result, BaseException):
                    each.found.set_exception(result)
                else:
                    each.found.set_result(result)
            with suppress(ValueError):
                self._waiters.remove(each)
