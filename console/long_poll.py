"""Let hundreds wait for work with one look at the database for all of them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mayfly.clock import monotonic

POLL_SECONDS = 0.25  # how often, while somebody waits; whoever comes is looked for at once

Poll = Callable[[Mapping[str, int]], Awaitable[Mapping[str, int]]]  # lanes, and how many jobs of each at most


@dataclass(eq=False)
class Waiter:
    lanes: Sequence[str]
    until: float  # monotonic
    woken: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class LongPoll:
    """Whoever waits is woken when there is a job for him, the one that has waited longest first.

    Each due job wakes one: a crowd that runs for the same job would only find it gone.
    """

    def __init__(self, look: Poll) -> None:
        self._look = look
        self._waiting: list[Waiter] = []
        self._nudged = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False

    async def wait(self, lanes: Sequence[str], until: float, in_vain: bool = False) -> bool:
        """Whether there is something to pull, by a look that begins after this; False once the time is over.

        Who was woken in vain, because somebody holds what he saw, waits for the next look in its turn.
        """
        if self._is_closed:
            return False
        waiter = Waiter(lanes, until)
        self._waiting.append(waiter)
        if not in_vain:
            self.nudge()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_on())
        try:
            return await waiter.woken
        finally:
            with suppress(ValueError):  # unless it was let go already
                self._waiting.remove(waiter)

    def nudge(self) -> None:
        """Look at once: somebody came, or something was enqueued."""
        self._nudged.set()

    def close(self) -> None:
        """Nobody waits any longer."""
        self._is_closed = True
        self._let_go(self._waiting, found=False)

    async def _look_on(self) -> None:
        while self._waiting:
            await self._pause()
            self._nudged.clear()
            asking = list(self._waiting)  # who comes during the look has not been looked for
            wanted = Counter(lane for each in asking for lane in each.lanes)
            [due] = await asyncio.gather(self._look(wanted), return_exceptions=True)
            if isinstance(due, BaseException):
                self._fail(asking, due)  # each who waits answers for itself
                continue
            self._wake(asking, due)
            self._let_go([each for each in asking if each.until <= monotonic()], found=False)

    async def _pause(self) -> None:
        """Until the next look is due: at once, if somebody has come."""
        if self._nudged.is_set():
            return
        seconds = min(POLL_SECONDS, max(0.0, min(each.until for each in self._waiting) - monotonic()))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._nudged.wait(), seconds)

    def _wake(self, asking: Sequence[Waiter], due: Mapping[str, int]) -> None:
        left = Counter(due)
        for each in asking:
            lane = next((lane for lane in each.lanes if left[lane] > 0), None)
            if lane is not None:
                left[lane] -= 1
                self._let_go([each], found=True)

    def _let_go(self, waiters: Sequence[Waiter], found: bool) -> None:
        for each in list(waiters):
            if not each.woken.done():
                each.woken.set_result(found)
            with suppress(ValueError):
                self._waiting.remove(each)

    def _fail(self, waiters: Sequence[Waiter], error: BaseException) -> None:
        for each in waiters:
            if not each.woken.done():
                each.woken.set_exception(error)
            with suppress(ValueError):
                self._waiting.remove(each)
