"""What `job.*` may call while a handler runs: in the main thread, in another one, or on the event loop."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from mayfly import bootstrap
from mayfly.client import App
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import DatabaseError, TransactionOnTheLoop, UnknownLimit
from mayfly.job import Job, TimeBudget
from mayfly.queue.settle import store_checkpoint, store_progress
from mayfly.registry import Registry
from mayfly.settings import LaneSettings, Settings
from runner.guard import RunnerDeadline

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlConnection

    from mayfly.limits.client import Grant, JobLimits

T = TypeVar("T")

Lanes = Mapping[str, LaneSettings]
NO_LANES: Lanes = MappingProxyType({})


class RunnerApp(App):
    """What handlers share with their runner: `enqueue` uses its connection, in other threads another one."""

    def __init__(self, settings: Settings, database: Database, registry: Registry, max_connections: int) -> None:
        super().__init__(settings, database, registry)
        self._main_database = database
        self._main_thread = get_ident()
        self._max_connections = max_connections
        self._concurrent_database: Database | None = None

    @property
    def database(self) -> Database:
        return self._main_database if get_ident() == self._main_thread else self.concurrent_database()

    def concurrent_database(self) -> Database:
        """For threads and the event loop: they never wait for the main thread's one connection."""
        with self._opening:
            if self._concurrent_database is None:
                opened = bootstrap.open_database(self.settings, connections=self._max_connections)
                opened.set_clock(self._main_database.clock)
                self._concurrent_database = opened
            return self._concurrent_database

    def close(self) -> None:
        if self._concurrent_database is not None:
            self._concurrent_database.close()


class JobTransaction:
    """A connection lent to a handler: its writes commit with the job's own settlement."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._stack = ExitStack()
        self.connection: SqlConnection | None = None

    @contextmanager
    def open(self, _job: Job) -> "Iterator[SqlConnection]":
        if self.connection is None:
            self.connection = self._stack.enter_context(self.database.transaction())
        try:
            yield self.connection
        except BaseException as error:
            if (explained := self.rollback(error)) is not None:
                raise explained from error
            raise

    def rollback(self, error: BaseException) -> DatabaseError | None:
        """What the error means if it is the database's. Errors of the rollback itself are ignored."""
        self.connection = None
        stack, self._stack = self._stack, ExitStack()
        try:
            stack.__exit__(type(error), error, error.__traceback__)
        except DatabaseError as explained:
            return explained if explained.__cause__ is error else None
        except Exception:  # noqa: BLE001 - the caller has the error that led here
            return None
        return None

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run work of the runner in the same transaction."""
        return self.database.run(work)

    def commit(self) -> None:
        self.connection = None
        self._stack.close()


class RuntimeContext(NamedTuple):
    """What is the same for all handlers of a runner."""

    worker_id: str
    deadline: RunnerDeadline
    limits: "JobLimits | None" = None  # None: no handler here declares a limit
    lanes: Lanes = NO_LANES


class _BaseRuntime:
    """What is the same wherever a handler runs."""

    def __init__(self, context: RuntimeContext, open_database: Callable[[], Database]) -> None:
        self.context = context
        self._open_database = open_database

    @property
    def worker_id(self) -> str:
        return self.context.worker_id

    @property
    def database(self) -> Database:
        return self._open_database()

    def time_budget(self, job: Job) -> TimeBudget:
        return self.context.deadline.time_budget(job)

    def store_checkpoint(self, job: Job, text: str, moved: bool) -> None:
        store_checkpoint(self.database, self.worker_id, job, text, moved)

    def store_progress(self, job: Job, text: str) -> None:
        store_progress(self.database, self.worker_id, job, text)

    def acquire(self, job: Job, key: str) -> "Grant":
        if self.context.limits is None:
            raise UnknownLimit(job.type, key, ())
        return self.context.limits.acquire(self.database, job, key)

    def on_doubt(self, lane: str) -> str | None:
        lanes = self.context.lanes
        return lanes[lane].on_doubt if lane in lanes else None


class MainThreadRuntime(_BaseRuntime):
    """For plain functions, which run in the main thread: through the runner's one connection."""

    def __init__(self, context: RuntimeContext, database: Database) -> None:
        super().__init__(context, lambda: database)
        self.job_transaction = JobTransaction(database)

    @property
    def in_transaction(self) -> bool:
        return self.job_transaction.connection is not None

    def transaction(self, job: Job) -> "AbstractContextManager[SqlConnection]":
        return self.job_transaction.open(job)

    def rollback(self, error: BaseException) -> None:
        if self.job_transaction.connection is not None:
            self.job_transaction.rollback(error)


class AsyncRuntime(_BaseRuntime):
    """For coroutines: through connections that the main thread never waits for."""

    @property
    def in_transaction(self) -> bool:
        return False

    def transaction(self, job: Job) -> "AbstractContextManager[SqlConnection]":  # noqa: ARG002 - refused for any
        raise TransactionOnTheLoop


class ThreadRuntime(AsyncRuntime):
    """For functions in threads: each has a transaction of its own, if it opens one."""

    job_transaction: JobTransaction | None = None

    @property
    def in_transaction(self) -> bool:
        return self.job_transaction is not None and self.job_transaction.connection is not None

    def transaction(self, job: Job) -> "AbstractContextManager[SqlConnection]":
        if self.job_transaction is None:
            self.job_transaction = JobTransaction(self.database)
        return self.job_transaction.open(job)
