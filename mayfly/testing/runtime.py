"""The parts of a runner for the process of a test: nothing here forks, kills, waits or is random."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, wraps
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mayfly.db.database import Database
from mayfly.job import Job, JobRuntime, TimeBudget
from mayfly.limits.client import JobLimits, open_job_limits
from mayfly.log import Log
from mayfly.log_messages import Level
from mayfly.process.status_page import StatusPage
from mayfly.queue.followups import BufferedJob
from mayfly.queue.outcome import JobControl
from mayfly.queue.policy import Backoff
from mayfly.registry import Handler, Registry, missing_settings
from mayfly.settings import Settings
from runner.batch import AdmissionStep, CancelAndExpiryCheck, RequiredSettingsCheck
from runner.guard import Guard, RunnerDeadline
from runner.hooks import open_hooks
from runner.invoke import Invoker, JobObservers, JobResult, PayloadError
from runner.job_runtime import AsyncRuntime, MainThreadRuntime, RuntimeContext
from runner.limits import LimitAdmission

LEASE = timedelta(hours=1)  # of slots that a job acquires


class InlineGuard(Guard):
    """Interrupts nothing: tests have timeouts of their own, and a breakpoint has none."""

    def __init__(self, page: StatusPage) -> None:
        super().__init__(inf, page)

    def _set_timer(self, settle_seconds: float = 0) -> None:
        """No alarm: a process has only one, and it belongs to the test."""


class InlineDeadline(RunnerDeadline):
    """None, unless the test wants a handler to be ended at its n-th checkpoint."""

    def __init__(self, guard: Guard, page: StatusPage, slice_after: int | None) -> None:
        super().__init__(guard, page)
        self._slice_after = slice_after
        self._reads: Counter[tuple[int, int]] = Counter()

    def time_budget(self, job: Job) -> TimeBudget:
        """Read once before the first checkpoint or progress, and then at each checkpoint."""
        run = job.id, job.claims
        checkpoints = self._reads[run]
        self._reads[run] += 1
        is_over = self._slice_after is not None and checkpoints >= self._slice_after
        return TimeBudget(super().time_budget(job).started, -inf if is_over else inf)


class RowlessRuntime(MainThreadRuntime):
    """For a job without a row: the job keeps its checkpoint itself, and progress is not stored."""

    def __init__(self, context: RuntimeContext, database: Database) -> None:
        super().__init__(context, database)
        self.enqueued: list[BufferedJob] = []

    def store_checkpoint(self, job: Job, text: str, moved: bool) -> None:  # noqa: ARG002 - as in a runner
        """What was enqueued before the checkpoint stays, whatever the outcome."""
        self.enqueued += job.held or ()
        job.held = None

    def store_progress(self, job: Job, text: str) -> None:
        """Nowhere."""


class InlineAsyncRuntime(AsyncRuntime):
    """For a coroutine that runs in place of a plain function."""

    def __init__(self, wrapped: JobRuntime) -> None:
        assert isinstance(wrapped, MainThreadRuntime)
        super().__init__(wrapped.context, lambda: wrapped.database)
        self._wrapped = wrapped

    def store_checkpoint(self, job: Job, text: str, moved: bool) -> None:
        self._wrapped.store_checkpoint(job, text, moved)

    def store_progress(self, job: Job, text: str) -> None:
        self._wrapped.store_progress(job, text)


@dataclass(frozen=True)
class InlineInvoker(Invoker):
    """Keeps the errors that handlers raised: a row has their text only."""

    checks: Sequence[AdmissionStep] = ()
    errors: dict[int, BaseException] = field(default_factory=dict)

    @cached_property
    def admission(self) -> list[AdmissionStep]:
        """Of jobs with a row: the checks, and limits where handlers declare them."""
        limits = self.runtime.context.limits
        return [*self.checks, LimitAdmission(self, limits)] if limits is not None else [*self.checks]

    def failed(self, job: Job, error: BaseException) -> JobResult:
        result = super().failed(job, error)
        if not isinstance(error, Exception | SystemExit):
            raise error  # Ctrl-C, pytest.fail() and the like: meant for the test, not for the job
        self.errors[job.id] = error
        return result

    def controlled(self, handler: Handler, job: Job, control: JobControl) -> JobResult:
        if isinstance(control, PayloadError):  # raised by the runner, not by the handler
            self.errors[job.id] = control
        return super().controlled(handler, job, control)


@contextmanager
def inline_invoker(
    settings: Settings,
    registry: Registry,
    database: Database,
    on_dead: Callable[[Job], None] | None = None,
    worker_id: str | None = None,
    slice_after: int | None = None,
) -> Iterator[InlineInvoker]:
    """With the hooks that the settings name; without jitter, so that a retry is due exactly when the docs say.

    For jobs without a row, unless `worker_id` says which worker has claimed them.
    """
    with TemporaryDirectory(prefix="mayfly-") as directory:
        page = StatusPage(Path(directory) / "page")
        guard = InlineGuard(page)
        name = worker_id or "inline"
        limits = inline_limits(registry, database, name)
        context = RuntimeContext(name, InlineDeadline(guard, page, slice_after), limits, settings.lanes)
        hooks = open_hooks(settings, guard, inline_log())
        yield InlineInvoker(
            registry=replace(registry, handlers={name: _inline(each) for name, each in registry.handlers.items()}),
            database=database,
            runtime=(MainThreadRuntime if worker_id else RowlessRuntime)(context, database),
            guard=guard,
            page=page,
            default_backoff=Backoff(settings.backoff_base, settings.backoff_cap),
            window_seconds=settings.worker_timeout,
            random=lambda: 0.0,
            on_dead=on_dead,
            observers=JobObservers([hooks]) if hooks else None,
            checks=[
                CancelAndExpiryCheck(database),
                RequiredSettingsCheck(missing_settings(registry.handlers), database),
            ],
        )
        if hooks is not None:
            hooks.close()
        page.close()


def inline_limits(registry: Registry, database: Database, worker_id: str) -> JobLimits | None:
    if not registry.has_limits:
        return None
    return open_job_limits(registry.handlers, worker_id, database.clock.now() + LEASE)


class _Stderr:
    """Captured by pytest, and shown with a failed test."""

    def write(self, line: str, level: Level) -> None:
        if level is not Level.INFO:
            print(line, file=sys.stderr)  # noqa: T201 - the log of a test


def inline_log() -> Log:
    return Log(_Stderr(), "mayfly.testing")


def _inline(handler: Handler) -> Handler:
    """A coroutine as a plain function: jobs run one after the other, in the process that the test can patch."""
    return replace(handler, function=_awaited(handler.function), is_async=False) if handler.is_async else handler


def _awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @wraps(function)
    def call(job: Job, *payload: Any) -> Any:
        job.runtime = InlineAsyncRuntime(job.runtime)
        if not _is_on_a_loop():
            return asyncio.run(function(job, *payload))
        with ThreadPoolExecutor(1) as threads:  # the test is itself a coroutine, and waits
            return threads.submit(copy_context().run, asyncio.run, function(job, *payload)).result()

    return call


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
