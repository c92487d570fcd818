"""Background tasks: bulk actions that run in a thread, slice by slice, while a page shows their progress."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from mayfly import log_messages
from mayfly.admin.actions import BulkResult, OnProgress
from mayfly.admin.jobs import CappedCount
from mayfly.errors import MayflyError
from mayfly.log import Log

MAX_KEPT = 50
MAX_RUNNING = 2  # each holds a connection; the remaining ones serve requests

Work = Callable[[OnProgress], BulkResult]


class TaskStopped(Exception):
    """Stopped by a user, or because the console exits. Earlier slices stay committed."""


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
    running: "asyncio.Task[None] | None" = field(default=None, repr=False)  # keeps the task from being collected

    @property
    def is_running(self) -> bool:
        return self.result is None and self.error is None

    @property
    def summary(self) -> str | None:
        return None if self.result is None else self.result.text(self.past_tense)

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
            task.result = await run_sync(work, task.on_progress, limiter=self._threads)
        except TaskStopped:
            task.error = "Stopped. Jobs already changed stay changed."
        except MayflyError as error:
            self._log.write(log_messages.request_failed("POST", "/jobs/act", str(error)))
            task.error = "The task failed; see the log of the console. Jobs already changed stay changed."
