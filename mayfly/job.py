"""A job as its handler sees it: payload, transaction, limits, batch, checkpoint and progress.

The runner sets `job.runtime` before it calls the handler; calls that need the database or the time go through it.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar

from mayfly import json_text
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.db.dialects import Unit
from mayfly.errors import (
    BadField,
    BadJobState,
    BatchClosed,
    OutsideARunner,
    PayloadUnreadable,
    RefusedInTransaction,
    SliceEnded,
)
from mayfly.schema.tables import FENCE, SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection as SqlConnection

    from mayfly.db.database import Database
    from mayfly.limits.client import Grant
    from mayfly.queue.followups import BufferedJob
    from mayfly.queue.insert import NewJob

T = TypeVar("T")

FULL_WINDOW = 0.9  # a job that ran for this share of the window would not finish in another one either
SLICES_ALLOWED = 20  # in a row, without a changed checkpoint
MOVED = -1  # in `stalled`: this run has changed the checkpoint, so its slice does not count as stalled
MARGIN_SECONDS = 1.0  # in addition to the longest step so far: time to end cleanly
CHECKPOINT_LIMIT = 64 << 10  # bytes of JSON
MAX_TEXT_LENGTH = 200  # characters of progress: one line of a list
PROGRESS_SECONDS = 1.0  # between two writes of progress
CANCEL_POLL_SECONDS = 1.0

PREVIOUS = "SELECT previous FROM mayfly_chains WHERE job_id = :job_id"
CANCEL_REQUEST = f"SELECT cancel_reason FROM mayfly_jobs WHERE {FENCE}"
IS_OPEN = "SELECT 1 FROM mayfly_batches WHERE batch_key = :key AND completed_at IS NULL"


class RareFields(NamedTuple):
    """Columns that few jobs use."""

    expires_at: datetime | None = None
    checkpoint: str | None = None  # JSON
    slices: int = 0
    stalled: int = 0  # slices in a row without a changed checkpoint; MOVED once this run has changed it
    cancel_reason: str | None = None
    forgiven: int = 0  # crashes since its last slice that a changed checkpoint has cleared
    releases: int = 0  # in a row, because the database or the dispatcher failed while it ran
    unknown_since: datetime | None = None  # when a runner first had no handler for its type


class SourceRow(NamedTuple):
    """The row of an application's own table from which a job comes."""

    source: str
    key: str  # the primary key as text
    values: "Mapping[str, Any] | None" = None  # as read in the claim; None if the source cannot be used here
    payload: str | None = None  # of its job, as read in the claim
    is_changed: bool = False  # or deleted by the application: the row is not written
    worker_id: str | None = None  # that the row had when its job was claimed again; None if it has no such column

    @property
    def unique_key(self) -> str:
        """Of its job: a row has one live job at a time."""
        return f"{SOURCE}{self.source}:{self.key}"


def source_row_of(unique_key: str | None) -> SourceRow | None:
    """None for a job that comes from no row."""
    if unique_key is None or not unique_key.startswith(SOURCE):
        return None
    source, separator, key = unique_key.removeprefix(SOURCE).partition(":")
    return SourceRow(source, key) if separator else None


class TimeBudget(NamedTuple):
    """The time of one run, in monotonic seconds."""

    started: float
    ends_at: float


class JobRuntime(Protocol):
    """What the runner provides for a job while its handler runs, in any thread or on the event loop."""

    @property
    def worker_id(self) -> str: ...

    @property
    def database(self) -> "Database":
        """The database to use on the calling thread."""

    @property
    def in_transaction(self) -> bool:
        """Whether the handler is inside job.transaction(): writes on its thread commit with its job."""

    def transaction(self, job: "Job") -> "AbstractContextManager[SqlConnection]": ...

    def time_budget(self, job: "Job") -> TimeBudget: ...

    def store_checkpoint(self, job: "Job", text: str, moved: bool) -> None:
        """Raises HandlerEnded if a cancellation was requested, or if the lease is lost."""

    def store_progress(self, job: "Job", text: str) -> None:
        """Raises LeaseGone if the lease is lost."""

    def acquire(self, job: "Job", key: str, most: int | None = None) -> "Grant": ...

    def on_doubt(self, lane: str) -> str | None: ...


class _NoRuntime:
    """Outside of a runner."""

    def __getattr__(self, _name: str) -> Any:
        raise OutsideARunner


class Batch:
    """A batch that jobs can join: `with job.batch:`, or `enqueue(…, batch=job.batch)`. Its key is their group_key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_open = True
        self._tokens: list[Token[Batch | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(CURRENT_BATCH.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        CURRENT_BATCH.reset(self._tokens.pop())


class ProgressState:
    """Checkpoints and progress of one run, in the thread of its handler."""

    def __init__(self, started: float) -> None:
        self._step_started = started
        self._longest_step = 0.0
        self._written_at = -inf
        self._unwritten: str | None = None

    def checkpoint(self, job: "Job", state: Any) -> None:
        """Store the state; then end the handler if there may be no time for another step."""
        if job.runtime.in_transaction:
            reason = "the block commits together with `done`; commit each step on your own connection instead"
            raise RefusedInTransaction("checkpoint", reason)
        text = checkpoint_text(job.type, state)
        moved = job.rare_fields is None or job.rare_fields.checkpoint != text
        job.runtime.store_checkpoint(job, text, moved)
        if moved:
            job.rare_fields = (job.rare_fields or RareFields())._replace(checkpoint=text, stalled=MOVED)
        self.write(job)
        now = monotonic()
        self._longest_step = max(self._longest_step, now - self._step_started)
        self._step_started = now
        if is_near(job.runtime.time_budget(job).ends_at - now, self._longest_step):
            raise SliceEnded

    def report(self, job: "Job", done: float, total: float | None, text: str) -> None:
        self._unwritten = _progress_text(job.type, done, total, text)
        if monotonic() - self._written_at >= PROGRESS_SECONDS:
            self.write(job)

    def write(self, job: "Job") -> None:
        """Write progress that was throttled; the runner also calls this when the handler has ended."""
        if self._unwritten is not None:
            text, self._unwritten = self._unwritten, None
            self._written_at = monotonic()
            job.runtime.store_progress(job, text)


@dataclass(slots=True)
class Job:
    """The argument of a handler. `attempt` counts from 1; `claims` is the fencing token of this claim."""

    id: int
    type: str
    lane: str
    payload_text: str
    attempt: int
    max_attempts: int
    claims: int
    crashes: int = 0
    interruptions: int = 0
    suspect: bool = False
    run_at: datetime | None = None
    group_key: str | None = None
    rare_fields: RareFields | None = None
    runtime: JobRuntime = field(default=_NoRuntime(), repr=False)
    cancel_poll_at: float = field(default=0.0, repr=False, compare=False)  # when `cancelled` queries again
    buffered_jobs: "list[BufferedJob] | None" = field(default=None, repr=False)  # enqueued by its handler
    uncommitted_jobs: "dict[str, NewJob] | None" = field(default=None, repr=False)  # by lane, see note_uncommitted
    progress_state: ProgressState | None = field(default=None, repr=False)
    awaited: bool = field(default=True, repr=False, compare=False)  # by a batch or a chain, if it has a group
    source_row: SourceRow | None = None  # for a job of a source

    @property
    def payload(self) -> dict[str, Any]:
        """A new copy each time: a handler may change it without changing the job."""
        try:
            loaded: Any = json_text.decode(self.payload_text)
        except ValueError as error:
            raise PayloadUnreadable(self.id, str(error)) from error
        if not isinstance(loaded, dict):
            raise PayloadUnreadable(self.id, f"it is a {type(loaded).__name__}")
        return loaded

    @property
    def row(self) -> "Mapping[str, Any]":
        """For a job of a source: the primary key and the payload's columns, as the claim has read them."""
        if self.source_row is None or self.source_row.values is None:
            raise BadJobState("row", self.type, "it does not come from a source; see [sources] in mayfly.toml")
        return self.source_row.values

    @property
    def now(self) -> datetime:
        """The database's time in UTC: the clock that all hosts share."""
        return self.runtime.database.clock.now()

    @property
    def on_doubt(self) -> str | None:
        """The lane's rule for effects that may have happened already: "hold", "resend", or None if it has none."""
        return self.runtime.on_doubt(self.lane)

    @property
    def batch(self) -> Batch | None:
        """The batch that the job belongs to, if it is open; `with job.batch:` adds jobs to it."""
        if self.group_key is None:
            return None
        values = {"key": self.group_key}
        found = self.runtime.database.read(lambda connection: connection.execute(IS_OPEN, values).first())
        return None if found is None else Batch(self.group_key)

    @property
    def previous(self) -> Any:
        """The result of the previous step of its chain; None for the first step, or without a chain."""
        if self.group_key is None:
            return None
        values = {"job_id": self.id}
        text = self.runtime.database.read(lambda connection: connection.execute(PREVIOUS, values).scalar())
        return None if text is None else json_text.decode(text)

    def transaction(self) -> "AbstractContextManager[SqlConnection]":
        """Writes in this block and the job's `done` commit together: they take effect exactly once.

        The block should be the last thing a handler does: when it ends, the job is done.
        """
        return self.runtime.transaction(self)

    def write(self, work: "Callable[[SqlConnection], T]") -> T:
        """Call `work(connection)` in a transaction of its own, committed when this returns; returns its result.

        The commit does not depend on the outcome of the job: use it to store something before an external effect.
        `work` is called again after a deadlock, and after a COMMIT whose reply was lost: it must be idempotent.
        `connection` is a SQLAlchemy Connection.
        """
        if self.runtime.in_transaction:
            reason = "it would not be committed before the job is done; write before the transaction begins"
            raise RefusedInTransaction("write", reason)
        return self.runtime.database.run_sqlalchemy(work)

    def read(self, work: "Callable[[SqlConnection], T]") -> T:
        """Call `work(connection)` to query the database; returns its result. It must not write.

        `connection` is a SQLAlchemy Connection, inside job.transaction() the transaction's own.
        """
        return self.runtime.database.run_sqlalchemy(work, Unit.READ)

    def take(self, key: str, *, limit: int | None = None, or_snooze: bool = False) -> "Grant":
        """Acquire a unit of a limit that the handler declares in `takes` (or `limits`): job.take("sender:42").

        The result is true if it was acquired, and has `opens_at` if not. With `or_snooze=True` the job is snoozed
        until then instead, and no attempt is used. `limit` replaces the declared maximum for this call. A concurrency
        slot is released when the job ends; `release()` of the result returns a unit that was not used.
        """
        grant = self.runtime.acquire(self, key, limit)
        if or_snooze:
            grant.or_snooze()
        return grant

    @property
    def cancelled(self) -> bool:
        """Whether a cancellation was requested: raise Cancel where that is safe. Inexpensive to read in a loop.

        Queries the database at most once a second. A job whose handler returns anyway is done.
        """
        if self.rare_fields is not None and self.rare_fields.cancel_reason is not None:
            return True
        now = monotonic()
        if now < self.cancel_poll_at:
            return False
        self.cancel_poll_at = now + CANCEL_POLL_SECONDS
        fence = self.fence(self.runtime.worker_id)
        reason = self.runtime.database.read(lambda connection: cancel_request(connection, fence))
        if reason is not None:
            self.rare_fields = (self.rare_fields or RareFields())._replace(cancel_reason=reason)
        return reason is not None

    @property
    def state(self) -> Any:
        """The last checkpoint, of this run or an earlier one; None before the first. A new copy each time."""
        text = self.rare_fields.checkpoint if self.rare_fields is not None else None
        return None if text is None else json_text.decode(text)

    def checkpoint(self, state: Any) -> None:
        """Store the position of the work as JSON: the next run finds it in `job.state`, even after a crash.

        Ends the handler here if the window is about to end: the next cycle continues, and no attempt is used.
        """
        self._progress_state().checkpoint(self, state)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Show operators how far the work is. Call it as often as you like: it is written at most once a second."""
        self._progress_state().report(self, done, total, text)

    def fence(self, worker_id: str) -> dict[str, Any]:
        """The values of FENCE, for every write by its owner."""
        return {"id": self.id, "owner": worker_id, "token": self.claims}

    @property
    def has_moved(self) -> bool:
        """Whether this run has changed the checkpoint."""
        return self.rare_fields is not None and self.rare_fields.stalled == MOVED

    def _progress_state(self) -> ProgressState:
        if self.progress_state is None:
            self.progress_state = ProgressState(self.runtime.time_budget(self).started)
        return self.progress_state


CURRENT_JOB: ContextVar[Job | None] = ContextVar("mayfly_current_job", default=None)
CURRENT_BATCH: ContextVar[Batch | None] = ContextVar("mayfly_current_batch", default=None)  # new jobs join it


def current_job() -> Job | None:
    """The job whose handler calls this, directly or indirectly; None outside of a handler."""
    return CURRENT_JOB.get()


def joined_batch(given: Batch | None) -> Batch | None:
    """The batch that a new job belongs to."""
    batch = CURRENT_BATCH.get() if given is None else given
    if batch is not None and not isinstance(batch, Batch):
        raise BadField("batch", batch, "the value of `with batch(…) as …`, or job.batch")
    if batch is not None and not batch.is_open:
        raise BatchClosed(batch.key, "enqueue inside its block, or with job.batch in a handler of one of its jobs")
    return batch


def cancel_request(connection: Connection, fence: "Mapping[str, Any]") -> str | None:
    """The reason of a requested cancellation; None without one, or if this worker no longer owns the job."""
    reason: str | None = connection.execute(CANCEL_REQUEST, fence).scalar()
    return reason


def is_near(left_seconds: float, longest_step: float) -> bool:
    """Whether another step, as long as the longest of this run, might be interrupted."""
    return left_seconds < longest_step + MARGIN_SECONDS


def checkpoint_text(type_name: str, state: Any) -> str:
    try:
        text = json_text.encode(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJobState("checkpoint", type_name, f"it is not valid JSON ({error})") from error
    size = len(text.encode())
    if size > CHECKPOINT_LIMIT:
        reason = f"it has {size:,} bytes, the limit is {CHECKPOINT_LIMIT:,}; store a cursor, such as the id of a row"
        raise BadJobState("checkpoint", type_name, reason)
    return text


def _progress_text(type_name: str, done: float, total: float | None, text: str) -> str:
    for name, number in {"done": done, "total": 0 if total is None else total}.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise BadJobState("progress", type_name, f"{name}={number!r} is not a number")
    if not isinstance(text, str):
        raise BadJobState("progress", type_name, f"the text must be a string, not {type(text).__name__}")
    try:
        return json_text.encode({"done": done, "total": total, "text": text[:MAX_TEXT_LENGTH]})
    except ValueError as error:
        raise BadJobState("progress", type_name, f"it is not valid JSON ({error})") from error
