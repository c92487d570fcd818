"""The parts of a runner that run in the process of a test: without forks, signals, waits and randomness."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import wraps
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mayfly.job import Job, TimeBudget
from mayfly.limits.client import open_job_limits
from mayfly.log import Log
from mayfly.log_messages import Level
from mayfly.monitoring.hooks import Announce
from mayfly.process.status_page import StatusPage
from mayfly.queue.followups import BufferedJob
from mayfly.queue.outcome import JobControl
from mayfly.queue.policy import Backoff
from mayfly.registry import Handler, missing_settings
from mayfly.testing.database import InlineApp
from runner.batch import PauseCache, SkipCheck
from runner.guard import Guard
from runner.invoke import Invoker, JobObservers, JobResult, PayloadError, open_hooks
from runner.job_runtime import HandlerRuntime

LEASE = timedelta(hours=1)  # of limit slots that a job acquires


class InlineGuard(Guard):
    """Interrupts nothing: tests have their own timeouts, and a debugger may stop the handler.

    A handler has unlimited time, unless the test ends it at its n-th checkpoint.
    """

    def __init__(self, page: StatusPage, slice_after: int | None) -> None:
        super().__init__(inf, page)
        self._slice_after = slice_after
        self._reads: Counter[tuple[int, int]] = Counter()

    def time_budget(self, job: Job) -> TimeBudget:
        """Read once before the first checkpoint or progress, and then at each checkpoint."""
        run = job.id, job.claims
        is_over = self._slice_after is not None and self._reads[run] >= self._slice_after
        self._reads[run] += 1
        return TimeBudget(super().time_budget(job).started, -inf if is_over else inf)

    def _set_timer(self, settle_seconds: float = 0) -> None:
        """No timer: signals are left to the test."""


@dataclass(eq=False)
class RowlessRuntime(HandlerRuntime):
    """For a job without a row: the job keeps its checkpoint itself, and progress is not stored."""

    enqueued: list[BufferedJob] = field(default_factory=list)

    def store_checkpoint(self, job: Job, text: str, moved: bool) -> None:  # noqa: ARG002 - as in a runner
        """Jobs enqueued before the checkpoint are kept for any outcome."""
        self.enqueued += job.buffered_jobs or ()
        job.buffered_jobs = None

    def store_progress(self, job: Job, text: str) -> None:
        """Not stored."""


@dataclass(frozen=True)
class InlineInvoker(Invoker):
    """Keeps the errors that handlers raised: a row has only their text."""

    errors: dict[int, BaseException] = field(default_factory=dict)

    def failed(self, job: Job, error: BaseException) -> JobResult:
        result = super().failed(job, error)
        if not isinstance(error, Exception | SystemExit):
            raise error  # Ctrl-C, pytest.fail() and the like concern the test, not the job
        self.errors[job.id] = error
        return result

    def controlled(self, handler: Handler, job: Job, control: JobControl) -> JobResult:
        if isinstance(control, PayloadError):  # raised by the runner, not by the handler
            self.errors[job.id] = control
        return super().controlled(handler, job, control)


@contextmanager
def inline_invoker(
    app: InlineApp, slice_after: int | None, worker_id: str | None = None, on_dead: Announce | None = None
) -> Iterator[InlineInvoker]:
    """With the hooks of the settings; without jitter, so that a retry is due exactly after the documented backoff.

    For jobs without a row, unless `worker_id` is the owner of their rows.
    """
    settings, registry, database, name = app.settings, app.registry, app.database, worker_id or "inline"
    with TemporaryDirectory(prefix="mayfly-") as directory:
        page = StatusPage(Path(directory) / "page")
        guard = InlineGuard(page, slice_after)
        limits = None
        if registry.has_limits:
            limits = open_job_limits(registry.handlers, name, database.clock.now() + LEASE)
        runtime = HandlerRuntime if worker_id else RowlessRuntime
        hooks = open_hooks(settings, guard, inline_log())
        yield InlineInvoker(
            registry=replace(registry, handlers={name: _inline(each) for name, each in registry.handlers.items()}),
            database=database,
            runtime=runtime(database, name, guard, limits, settings.lanes),
            guard=guard,
            page=page,
            default_backoff=Backoff(settings.backoff_base, settings.backoff_cap),
            unknown_type_grace=timedelta(seconds=settings.unknown_type_grace),
            window_seconds=settings.worker_timeout,
            random=lambda: 0.0,
            on_dead=on_dead,
            observers=JobObservers([hooks] if hooks else []),
        )
        if hooks is not None:
            hooks.close()
        page.close()


def skip_check(invoker: Invoker) -> SkipCheck:
    """Ignores pauses: they concern runners only."""
    database = invoker.database
    return SkipCheck(database, PauseCache("", database), missing_settings(invoker.registry.handlers))


class _Stderr:
    """Captured by pytest, and shown with a failed test."""

    def write(self, line: str, level: Level) -> None:
        if level is not Level.INFO:
            print(line, file=sys.stderr)  # noqa: T201 - the log of a test


def inline_log() -> Log:
    return Log(_Stderr(), "mayfly.testing")


def _inline(handler: Handler) -> Handler:
    """A coroutine function as a plain function: jobs run one after the other, in this process."""
    return replace(handler, function=_awaited(handler.function), is_async=False) if handler.is_async else handler


def _awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @wraps(function)
    def call(job: Job, *payload: Any) -> Any:
        assert isinstance(job.runtime, HandlerRuntime)
        job.runtime = replace(job.runtime, is_on_loop=True)
        if not _is_on_a_loop():
            return asyncio.run(function(job, *payload))
        with ThreadPoolExecutor(1) as threads:  # the test itself is a coroutine, and waits
            return threads.submit(copy_context().run, asyncio.run, function(job, *payload)).result()

    return call


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
