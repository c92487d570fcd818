"""A runner's parts, put together for the process of a test: nothing here forks, kills, waits or rolls dice."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
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
from runner.guard import Guard, RunnerDeadline
from runner.hooks import open_hooks
from runner.invoke import Invoker, JobResult, PayloadError
from runner.job_runtime import NO_LANES, AsyncRuntime, Lanes, MainThreadRuntime
from runner.limits import LimitGate

LEASE = timedelta(hours=1)  # of what a job takes


class Patience(Guard):
    """Ends nobody: tests have time limits of their own, and whoever stops at a breakpoint has none."""

    def __init__(self, page: StatusPage) -> None:
        super().__init__(inf, page)

    def _arm(self, settle_seconds: float = 0) -> None:
        """No alarm: it would be this process's only one, and the test's own."""


class PatientHorizon(RunnerDeadline):
    """As far as one can see, unless the test wants a handler to be ended at its n-th checkpoint."""

    def __init__(self, guard: Guard, page: StatusPage, slice_after: int | None) -> None:
        super().__init__(guard, page)
        self._slice_after = slice_after
        self._asked: Counter[tuple[int, int]] = Counter()

    def window(self, job: Job) -> TimeBudget:
        """Asked once when the first is told of, and then at each checkpoint."""
        run = job.id, job.claims
        checkpoints = self._asked[run]
        self._asked[run] += 1
        is_over = self._slice_after is not None and checkpoints >= self._slice_after
        return TimeBudget(super().window(job).started, -inf if is_over else inf)


class RowlessLifeline(MainThreadRuntime):
    """For a job that is in no table: the job itself knows its checkpoint, and nobody asks how far it is."""

    def __init__(
        self,
        worker_id: str,
        horizon: RunnerDeadline,
        database: Database,
        takings: JobLimits | None = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        super().__init__(worker_id, horizon, database, takings, lanes)
        self.enqueued: list[BufferedJob] = []

    def keep_checkpoint(self, job: Job, text: str, moved: bool) -> None:  # noqa: ARG002 - as in a runner
        """What was enqueued before it stays, whatever becomes of the rest."""
        self.enqueued += job.held or ()
        job.held = None

    def keep_progress(self, job: Job, text: str) -> None:
        """Nowhere."""


class LoopedLifeline(AsyncRuntime):
    """For a coroutine that runs in place of a plain function."""

    def __init__(self, around: JobRuntime) -> None:
        assert isinstance(around, MainThreadRuntime)
        super().__init__(around.worker_id, around.horizon, lambda: around.database, around.takings, around.lanes)
        self._around = around

    def keep_checkpoint(self, job: Job, text: str, moved: bool) -> None:
        self._around.keep_checkpoint(job, text, moved)

    def keep_progress(self, job: Job, text: str) -> None:
        self._around.keep_progress(job, text)


@dataclass(frozen=True)
class InlineInvoker(Invoker):
    """Remembers what handlers raised: a row keeps its text only."""

    errors: dict[int, BaseException] = field(default_factory=dict)

    @cached_property
    def gate(self) -> LimitGate | None:
        """Where handlers declare limits."""
        return LimitGate(self, self.lifeline.takings) if self.lifeline.takings is not None else None

    def failed(self, job: Job, error: BaseException) -> JobResult:
        ran = super().failed(job, error)
        if not isinstance(error, Exception | SystemExit):
            raise error  # Ctrl-C, pytest.fail() and their kind: meant for the test, not for the job
        self.errors[job.id] = error
        return ran

    def steered(self, handler: Handler, job: Job, steer: JobControl) -> JobResult:
        if isinstance(steer, PayloadError):  # raised by us, and not by the handler to steer
            self.errors[job.id] = steer
        return super().steered(handler, job, steer)


@contextmanager
def inline_invoker(
    settings: Settings,
    registry: Registry,
    database: Database,
    announce: Callable[[Job], None] | None = None,
    worker_id: str | None = None,
    slice_after: int | None = None,
) -> Iterator[InlineInvoker]:
    """With the hooks that the settings name; without chance, so that a retry is due when the docs say.

    For jobs that are in no table, unless it is told as which worker they are claimed.
    """
    with TemporaryDirectory(prefix="mayfly-") as directory:
        page = StatusPage(Path(directory) / "page")
        guard = Patience(page)
        horizon = PatientHorizon(guard, page, slice_after)
        lifeline = MainThreadRuntime if worker_id else RowlessLifeline
        takings = inline_takings(registry, database, worker_id or "inline")
        hooks = open_hooks(settings, guard, inline_log())
        inline = replace(registry, handlers={name: _inline(each) for name, each in registry.handlers.items()})
        yield InlineInvoker(
            registry=inline.hooked(hooks) if hooks else inline,
            database=database,
            lifeline=lifeline(worker_id or "inline", horizon, database, takings, settings.lanes),
            guard=guard,
            page=page,
            usual_backoff=Backoff(settings.backoff_base, settings.backoff_cap),
            window_seconds=settings.worker_timeout,
            dice=lambda: 0.0,
            announce=announce,
            unconfigured=missing_settings(registry.handlers),
        )
        if hooks is not None:
            hooks.close()
        page.close()


def inline_takings(registry: Registry, database: Database, worker_id: str) -> JobLimits | None:
    if not registry.has_limits:
        return None
    return open_job_limits(registry.handlers, worker_id, database.clock.now() + LEASE)


class _Stderr:
    """What pytest captures, and shows with a test that failed."""

    def write(self, line: str, level: Level) -> None:
        if level is not Level.INFO:
            print(line, file=sys.stderr)  # noqa: T201 - the log of a test


def inline_log() -> Log:
    return Log(_Stderr(), "mayfly.testing")


def _inline(handler: Handler) -> Handler:
    """As a plain function: one job after the other, where the test can see and patch what they do."""
    return replace(handler, function=_awaited(handler.function), is_async=False) if handler.is_async else handler


def _awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @wraps(function)
    def call(job: Job, *payload: Any) -> Any:
        job.lifeline = LoopedLifeline(job.lifeline)
        if not _is_on_a_loop():
            return asyncio.run(function(job, *payload))
        with ThreadPoolExecutor(1) as beside:  # the test is itself a coroutine, and waits
            return beside.submit(copy_context().run, asyncio.run, function(job, *payload)).result()

    return call


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
