"""Background tasks: bulk actions that run in a thread, slice by slice, while a page shows their progress."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from mayfly import log_messages
from mayfly.admin import BulkResult, Cancelled, CappedCount, OnProgress
from mayfly.errors import MayflyError
from mayfly.log import Log

MAX_KEPT = 50
MAX_RUNNING = 2  # each holds a connection; the others are left to requests

Work = Callable[[OnProgress], BulkResult | Cancelled]


class TaskStopped(Exception):
    """By a user, or because the console exits. The slices before it stay committed."""


@dataclass
class BackgroundTask:
    title: str  # "Cancel jobs with type=noop"
    past_tense: str  # "cancelled"
    matching: CappedCount  # counted before the start
    started_by: str
    started_at: datetime
    return_to: str  # the path of the page that started it
    id: str = field(default_factory=lambda: secrets.token_urlsafe(8))
    processed: int = 0
    result: BulkResult | None = None
    error: str | None = None
    is_stopped: bool = False
    running: "asyncio.Task[None] | None" = field(default=None, repr=False)  # a reference, or it is collected

    @property
    def is_running(self) -> bool:
        return self.result is None and self.error is None

    @property
    def summary(self) -> str | None:
        return None if self.result is None else summarize(self.result, self.past_tense)

    def on_progress(self, jobs: int) -> None:
        self.processed += jobs
        if self.is_stopped:
            raise TaskStopped


class BackgroundTasks:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._tasks: dict[str, BackgroundTask] = {}
        self._threads = CapacityLimiter(MAX_RUNNING)

    def get(self, task_id: str) -> BackgroundTask | None:
        return self._tasks.get(task_id)

    def start(self, task: BackgroundTask, work: Work) -> None:
        self._tasks = dict([*self._tasks.items()][-MAX_KEPT:]) | {task.id: task}
        task.running = asyncio.create_task(self._run(task, work))

    def close(self) -> None:
        """Each task ends after its current slice."""
        for each in self._tasks.values():
            each.is_stopped = True

    async def _run(self, task: BackgroundTask, work: Work) -> None:
        try:
            task.result = as_bulk_result(await run_sync(work, task.on_progress, limiter=self._threads))
        except TaskStopped:
            task.error = "Stopped. Jobs already changed stay changed."
        except MayflyError as error:
            self._log.say(log_messages.request_failed("POST", "/jobs/act", str(error)))
            task.error = "The task failed; see the log of the console. Jobs already changed stay changed."


def as_bulk_result(result: BulkResult | Cancelled) -> BulkResult:
    return BulkResult(result.ended, result.told) if isinstance(result, Cancelled) else result


def summarize(result: BulkResult, past_tense: str) -> str:
    """3 jobs cancelled; 1 running job was asked to stop."""
    parts = [f"{_jobs(result.changed)} {past_tense}"]
    if result.requested:
        parts.append(f"{_jobs(result.requested, 'running ')} {_was(result.requested)} asked to stop")
    if result.held:
        parts.append(f"{_jobs(result.held)} skipped because another job holds the unique key")
    return f"{'; '.join(parts)}."


def _jobs(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}{'job' if number == 1 else 'jobs'}"


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
