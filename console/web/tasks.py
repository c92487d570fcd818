"""What is done to many jobs: in a thread, slice by slice, with its progress to be looked at meanwhile."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from console.web.sessions import Person
from mayfly import log_messages
from mayfly.admin import BulkResult, Cancelled, CappedCount, OnProgress
from mayfly.errors import MayflyError
from mayfly.log import Log

MAX_KEPT = 50
MAX_RUNNING = 2  # of the connections; the others are for those who look

Work = Callable[[OnProgress], BulkResult | Cancelled]


class Stopped(Exception):
    """By somebody who looked at it, or because the console ends. What is done is done."""


@dataclass
class BackgroundTask:
    id: str
    title: str  # "Cancel jobs with type=noop"
    found: CappedCount  # before it began
    person: Person
    began_at: datetime
    back: str  # where it was asked for
    dealt_with: int = 0
    done: BulkResult | None = None
    wrong: str | None = None
    is_stopped: bool = False
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        return self.done is None and self.wrong is None

    def tell(self, jobs: int) -> None:
        self.dealt_with += jobs
        if self.is_stopped:
            raise Stopped


class BackgroundTasks:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, BackgroundTask] = {}
        self._threads = CapacityLimiter(MAX_RUNNING)

    def get(self, errand_id: str) -> BackgroundTask | None:
        return self._known.get(errand_id)

    def start(
        self, title: str, found: CappedCount, person: Person, now: datetime, back: str, work: Work
    ) -> BackgroundTask:
        errand = BackgroundTask(secrets.token_urlsafe(8), title, found, person, now, back)
        self._known = dict([*self._known.items()][-MAX_KEPT:]) | {errand.id: errand}
        errand.task = asyncio.create_task(self._carry_out(errand, work))
        return errand

    def close(self) -> None:
        """Each ends after the slice that it is at."""
        for each in self._known.values():
            each.is_stopped = True

    async def _carry_out(self, errand: BackgroundTask, work: Work) -> None:
        try:
            errand.done = as_done(await run_sync(work, errand.tell, limiter=self._threads))
        except Stopped:
            errand.wrong = "Stopped. What was done before stays done."
        except MayflyError as error:
            self._log.say(log_messages.request_failed("POST", "/jobs/act", str(error)))
            errand.wrong = "It could not be finished: the console's log says why. What was done before stays done."


def as_done(done: BulkResult | Cancelled) -> BulkResult:
    return BulkResult(done.ended, done.told) if isinstance(done, Cancelled) else done


def result_of(done: BulkResult, past: str) -> str:
    """In a sentence: 3 jobs cancelled; 1 runs and was told to end."""
    parts = [f"{done.changed:,} {'job' if done.changed == 1 else 'jobs'} {past}"]
    if done.told:
        parts.append(f"{done.told:,} {'runs and was' if done.told == 1 else 'run and were'} told to end")
    if done.held:
        parts.append(f"{done.held:,} left as they are, since another job holds their unique key")
    return f"{'; '.join(parts)}."
