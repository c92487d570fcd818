"""Which connection a handler's `enqueue` uses: the runner's own one, or, beside the main thread, another."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from mayfly import bootstrap
from mayfly.client import App
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import TransactionOnTheLoop, UnknownLimit
from mayfly.job import Job, TimeBudget
from mayfly.queue.settle import store_checkpoint, store_progress
from mayfly.registry import Registry
from mayfly.settings import LaneSettings, Settings
from runner.guard import RunnerDeadline

if TYPE_CHECKING:
    from sqlalchemy import Connection as Lent

    from mayfly.limits.client import Grant, JobLimits


class RunnerApp(App):
    """What handlers share with their runner."""

    def __init__(self, settings: Settings, database: Database, registry: Registry, most: int) -> None:
        super().__init__(settings, database, registry)
        self._own = database
        self._main_thread = get_ident()
        self._most = most
        self._beside: Database | None = None

    @property
    def database(self) -> Database:
        return self._own if get_ident() == self._main_thread else self.beside()

    def beside(self) -> Database:
        """For threads and the event loop: the main thread's one connection is never waited for, nor lent."""
        with self._opening:
            if self._beside is None:
                self._beside = bootstrap.open_database(self.settings, connections=self._most)
                self._beside.set_clock(self._own.clock)
            return self._beside

    def close(self) -> None:
        if self._beside is not None:
            self._beside.close()


T = TypeVar("T")

Lanes = Mapping[str, LaneSettings]
NO_LANES: Lanes = MappingProxyType({})


class JobTransaction:
    """A connection lent to a handler: its writes commit with the job's own settlement."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._stack = ExitStack()
        self.connection: Lent | None = None

    @contextmanager
    def open(self, _job: Job) -> "Iterator[Lent]":
        if self.connection is None:
            self.connection = self._stack.enter_context(self.database.transaction())
        try:
            yield self.connection
        except BaseException as error:
            self.undo(error)
            raise

    def undo(self, error: BaseException) -> None:
        """Roll back. What that says is of no interest: the error that led here is, and the caller has it."""
        self.connection = None
        stack, self._stack = self._stack, ExitStack()
        with suppress(Exception):
            stack.__exit__(type(error), error, error.__traceback__)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Something of ours in the same transaction."""
        return self.database.run(work)

    def commit(self) -> None:
        self.connection = None
        self._stack.close()


class _BaseRuntime:
    """What is the same wherever a handler runs."""

    def __init__(
        self,
        worker_id: str,
        horizon: RunnerDeadline,
        asked: Callable[[], Database],
        takings: "JobLimits | None" = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        self.worker_id = worker_id
        self.horizon = horizon
        self.takings = takings  # None: no handler here declares a limit
        self.lanes = lanes
        self._asked = asked

    @property
    def database(self) -> Database:
        return self._asked()

    def window(self, job: Job) -> TimeBudget:
        return self.horizon.window(job)

    def keep_checkpoint(self, job: Job, text: str, moved: bool) -> None:
        store_checkpoint(self.database, self.worker_id, job, text, moved)

    def keep_progress(self, job: Job, text: str) -> None:
        store_progress(self.database, self.worker_id, job, text)

    def take(self, job: Job, key: str) -> "Grant":
        if self.takings is None:
            raise UnknownLimit(job.type, key, ())
        return self.takings.take(self.database, job, key)

    def on_doubt(self, lane: str) -> str | None:
        return self.lanes[lane].on_doubt if lane in self.lanes else None


class MainThreadRuntime(_BaseRuntime):
    """For plain functions, which run in the main thread: through the runner's one connection."""

    def __init__(
        self,
        worker_id: str,
        horizon: RunnerDeadline,
        database: Database,
        takings: "JobLimits | None" = None,
        lanes: Lanes = NO_LANES,
    ) -> None:
        super().__init__(worker_id, horizon, lambda: database, takings, lanes)
        self.opened = JobTransaction(database)

    @property
    def in_transaction(self) -> bool:
        return self.opened.connection is not None

    def transaction(self, job: Job) -> "AbstractContextManager[Lent]":
        return self.opened.open(job)

    def undo(self, error: BaseException) -> None:
        if self.opened.connection is not None:
            self.opened.undo(error)


class AsyncRuntime(_BaseRuntime):
    """For coroutines: through connections that the main thread never waits for."""

    @property
    def in_transaction(self) -> bool:
        return False

    def transaction(self, job: Job) -> "AbstractContextManager[Lent]":  # noqa: ARG002 - refused for any
        raise TransactionOnTheLoop


class ThreadRuntime(AsyncRuntime):
    """For functions in threads: each has a transaction of its own, if it asks for one."""

    opened: JobTransaction | None = None

    @property
    def in_transaction(self) -> bool:
        return self.opened is not None and self.opened.connection is not None

    def transaction(self, job: Job) -> "AbstractContextManager[Lent]":
        if self.opened is None:
            self.opened = JobTransaction(self.database)
        return self.opened.open(job)
