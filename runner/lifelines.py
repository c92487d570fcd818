"""What a running job may ask of its runner, and through which connection: that depends on where its handler runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.errors import TransactionOnTheLoop, UnknownLimit
from mayfly.job import Job
from mayfly.jobs.advance import store_checkpoint, store_progress
from mayfly.schema import JOBS
from mayfly.settings import LaneSettings
from mayfly.trail import Window
from runner.horizon import Horizon

if TYPE_CHECKING:
    from sqlalchemy import Connection as Lent

    from mayfly.limits.takings import Grant, Takings

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


class _Lifeline:
    """What is the same wherever a handler runs."""

    def __init__(
        self,
        worker_id: str,
        horizon: Horizon,
        asked: Callable[[], Database],
        takings: "Takings | None" = None,
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

    def window(self, job: Job) -> Window:
        return self.horizon.window(job)

    def keep_checkpoint(self, job: Job, text: str, moved: bool) -> None:
        store_checkpoint(self.database, JOBS, self.worker_id, job, text, moved)

    def keep_progress(self, job: Job, text: str) -> None:
        store_progress(self.database, JOBS, self.worker_id, job, text)

    def take(self, job: Job, key: str) -> "Grant":
        if self.takings is None:
            raise UnknownLimit(job.type, key, ())
        return self.takings.take(self.database, job, key)

    def on_doubt(self, lane: str) -> str | None:
        return self.lanes[lane].on_doubt if lane in self.lanes else None


class MainLifeline(_Lifeline):
    """For plain functions, which run in the main thread: through the runner's one connection."""

    def __init__(
        self,
        worker_id: str,
        horizon: Horizon,
        database: Database,
        takings: "Takings | None" = None,
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


class LoopLifeline(_Lifeline):
    """For coroutines: through connections that the main thread never waits for."""

    @property
    def in_transaction(self) -> bool:
        return False

    def transaction(self, job: Job) -> "AbstractContextManager[Lent]":  # noqa: ARG002 - refused for any
        raise TransactionOnTheLoop


class ThreadLifeline(LoopLifeline):
    """For functions in threads: each has a transaction of its own, if it asks for one."""

    opened: JobTransaction | None = None

    @property
    def in_transaction(self) -> bool:
        return self.opened is not None and self.opened.connection is not None

    def transaction(self, job: Job) -> "AbstractContextManager[Lent]":
        if self.opened is None:
            self.opened = JobTransaction(self.database)
        return self.opened.open(job)
