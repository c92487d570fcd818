"""The implementation of `job.*` while a handler runs: in the main thread, in another thread or on the event loop."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING

from mayfly import schema
from mayfly.client import App
from mayfly.db.database import Database
from mayfly.errors import DatabaseError, TransactionOnTheLoop, UnknownLimit
from mayfly.job import Job, TimeBudget
from mayfly.queue.settle import store_checkpoint, store_progress
from mayfly.registry import Registry
from mayfly.settings import LaneSettings, Settings
from runner.guard import Guard

if TYPE_CHECKING:
    from sqlalchemy import Connection as SqlConnection

    from mayfly.limits.client import Grant, JobLimits


class RunnerApp(App):
    """For handlers: `enqueue` uses the runner's own connection, or in other threads one of a second pool."""

    def __init__(self, settings: Settings, database: Database, registry: Registry, max_connections: int) -> None:
        super().__init__(settings, database, registry)
        self._main_database, self._main_thread = database, get_ident()
        # For threads and the event loop: they must not wait for the main thread's only connection.
        self.concurrent_database = schema.open_database(settings, connections=max_connections)
        self.concurrent_database.set_clock(database.clock)

    @property
    def database(self) -> Database:
        return self._main_database if get_ident() == self._main_thread else self.concurrent_database

    def close(self) -> None:
        self.concurrent_database.close()


class JobTransaction:
    """The transaction of a handler: its writes commit together with the job's outcome."""

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
        """Returns the explanation if it is an error of the database. Errors of the rollback itself are ignored."""
        self.connection = None
        stack, self._stack = self._stack, ExitStack()
        try:
            stack.__exit__(type(error), error, error.__traceback__)
        except DatabaseError as explained:
            return explained if explained.__cause__ is error else None
        except Exception:  # noqa: BLE001 - the caller has the original error
            return None
        return None

    def commit(self) -> None:
        self.connection = None
        self._stack.close()


@dataclass(eq=False)
class HandlerRuntime:
    """One for the main thread, one for the event loop, and one per run in another thread."""

    database: Database
    worker_id: str
    guard: Guard
    limits: "JobLimits | None" = None  # None: no handler here declares a limit
    lanes: Mapping[str, LaneSettings] = field(default_factory=dict)
    is_on_loop: bool = False  # for coroutines

    def __post_init__(self) -> None:
        self.job_transaction = JobTransaction(self.database)

    @property
    def in_transaction(self) -> bool:
        return self.job_transaction.connection is not None

    def transaction(self, job: Job) -> "AbstractContextManager[SqlConnection]":
        if self.is_on_loop:
            raise TransactionOnTheLoop
        return self.job_transaction.open(job)

    def time_budget(self, job: Job) -> TimeBudget:
        return self.guard.time_budget(job)

    def store_checkpoint(self, job: Job, text: str, moved: bool) -> None:
        store_checkpoint(self.database, self.worker_id, job, text, moved)

    def store_progress(self, job: Job, text: str) -> None:
        store_progress(self.database, self.worker_id, job, text)

    def acquire(self, job: Job, key: str, most: int | None = None) -> "Grant":
        if self.limits is None:
            raise UnknownLimit(job.type, key, ())
        return self.limits.acquire(self.database, job, key, most)

    def on_doubt(self, lane: str) -> str | None:
        settings = self.lanes.get(lane)
        return None if settings is None else settings.on_doubt
