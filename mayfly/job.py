"""Decide whether there is time for another step of a long job. Pure."""

from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
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
    RefusedInTransaction,
    SliceEnded,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection as SqlConnection

    from mayfly.db.database import Database
    from mayfly.limits.client import Grant
    from mayfly.queue.followups import BufferedJob


MARGIN_SECONDS = 1.0  # beyond the longest step so far: to end in good order
WHOLE_WINDOW = 0.9  # a job that had this share of the window would not be helped by another one
SLICES_ALLOWED = 20  # in a row, without a changed checkpoint
MOVED = -1  # in `stalled`: this run has changed the checkpoint, so that its slice is counted as none


def is_near(left_seconds: float, longest_step: float) -> bool:
    """Whether another step, as long as the longest of this run, might be interrupted in its middle."""
    return left_seconds < longest_step + MARGIN_SECONDS


IS_OPEN = "SELECT 1 FROM mayfly_batches WHERE batch_key = :key AND completed_at IS NULL"


class Batch:
    """One that jobs may join: `with job.batch:`, or `enqueue(…, batch=job.batch)`. Its key is its jobs' group."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_open = True
        self._tokens: list[Token[Batch | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(JOINED.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        JOINED.reset(self._tokens.pop())


# What is enqueued here joins it.
JOINED: ContextVar[Batch | None] = ContextVar("mayfly_joined", default=None)


def joined(given: Batch | None) -> Batch | None:
    """The batch that a new job belongs to."""
    batch = JOINED.get() if given is None else given
    if batch is not None and not isinstance(batch, Batch):
        raise BadField("batch", batch, "what `with batch(…) as it` gives, or job.batch")
    if batch is not None and not batch.is_open:
        raise BatchClosed(batch.key, "enqueue inside its block, or inside a handler of its jobs through job.batch")
    return batch


def batch_of(database: "Database", group_key: str) -> Batch | None:
    """The open batch whose child a running job is: while it runs, siblings may join."""
    found = database.read(lambda connection: connection.execute(IS_OPEN, {"key": group_key}).first())
    return None if found is None else Batch(group_key)


CHECKPOINT_LIMIT = 64 << 10
MAX_TEXT_LENGTH = 200  # characters of progress: one line of a list
PAUSE_SECONDS = 1.0  # between two writes of progress


class TimeBudget(NamedTuple):
    """The time of one run, in monotonic seconds."""

    started: float
    ends_at: float


class RunProgress:
    """Of one run of one job, in the thread of its handler."""

    def __init__(self, started: float) -> None:
        self._stepped_at = started
        self._longest_step = 0.0
        self._written_at = -inf
        self._unwritten: str | None = None

    def checkpoint(self, job: "Job", state: Any) -> None:
        """Kept first: whether there is time for another step is asked after this one is safe."""
        if job.lifeline.in_transaction:
            reason = "that block commits with the job's `done`; commit each step on a connection of your own before"
            raise RefusedInTransaction("checkpoint", reason)
        text = checkpoint_text(job.type, state)
        moved = job.special is None or job.special.checkpoint != text
        job.lifeline.keep_checkpoint(job, text, moved)
        if moved:
            job.note_checkpoint(text)
        self.write_progress(job)
        now = monotonic()
        self._longest_step = max(self._longest_step, now - self._stepped_at)
        self._stepped_at = now
        if is_near(job.lifeline.window(job).ends_at - now, self._longest_step):
            raise SliceEnded

    def progress(self, job: "Job", done: float, total: float | None, text: str) -> None:
        self._unwritten = _progress_text(job.type, done, total, text)
        if monotonic() - self._written_at >= PAUSE_SECONDS:
            self.write_progress(job)

    def write_progress(self, job: "Job") -> None:
        """What was told and is not yet written; the runner asks for it when the handler has ended."""
        if self._unwritten is not None:
            text, self._unwritten = self._unwritten, None
            self._written_at = monotonic()
            job.lifeline.keep_progress(job, text)


def checkpoint_text(type_name: str, state: Any) -> str:
    try:
        text = json_text.encode(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJobState("checkpoint", type_name, f"it is no JSON ({error})") from error
    size = len(text.encode())
    if size > CHECKPOINT_LIMIT:
        advice = "store a cursor, such as the id of a row"
        reason = f"it has {size:,} bytes, the limit is {CHECKPOINT_LIMIT:,}; {advice}"
        raise BadJobState("checkpoint", type_name, reason)
    return text


def _progress_text(type_name: str, done: float, total: float | None, text: str) -> str:
    for name, number in (("done", done), ("total", total)):
        if (
            isinstance(number, bool)
            or not isinstance(number, int | float | None)
            or (name == "done" and number is None)
        ):
            raise BadJobState("progress", type_name, f"{name}={number!r} is no number")
    if not isinstance(text, str):
        raise BadJobState("progress", type_name, f"the text is a {type(text).__name__}")
    try:
        return json_text.encode({"done": done, "total": total, "text": text[:MAX_TEXT_LENGTH]})
    except ValueError as error:
        raise BadJobState("progress", type_name, f"it is no JSON ({error})") from error


T = TypeVar("T")

PREVIOUS = "SELECT previous FROM mayfly_chains WHERE job_id = :job_id"
CANCEL_POLL_SECONDS = 1.0


class RareFields(NamedTuple):
    """What few jobs have."""

    expires_at: datetime | None = None
    checkpoint: str | None = None  # JSON
    slices: int = 0
    stalled: int = 0  # slices in a row that brought it no further; below 0 once this run has
    cancel_reason: str | None = None
    forgiven: int = 0  # crashes since its last slice that a changed checkpoint has cleared


class JobRuntime(Protocol):
    """What a job may ask of its runner while its handler runs, be it in the main thread, another, or on the loop."""

    @property
    def worker_id(self) -> str: ...

    @property
    def database(self) -> "Database":
        """The one to use on the thread that asks."""

    @property
    def in_transaction(self) -> bool:
        """Whether the handler has asked for one: what is written on its thread then commits with its job."""

    def transaction(self, job: "Job") -> "AbstractContextManager[SqlConnection]": ...

    def window(self, job: "Job") -> TimeBudget:
        """Since when its handler runs, and until when it may."""

    def keep_checkpoint(self, job: "Job", text: str, moved: bool) -> None:
        """Raises HandlerEnded if the job is to be cancelled, or no longer ours."""

    def keep_progress(self, job: "Job", text: str) -> None:
        """Raises LeaseGone if the job is no longer ours."""

    def take(self, job: "Job", key: str) -> "Grant": ...

    def on_doubt(self, lane: str) -> str | None: ...


class _NoRuntime:
    """Outside of a runner."""

    def __getattr__(self, _name: str) -> Any:
        raise OutsideARunner


@dataclass(slots=True)
class Job:
    """What a handler receives. `attempt` counts from 1; `claims` is the fencing token of this claim."""

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
    special: RareFields | None = None
    lifeline: JobRuntime = field(default=_NoRuntime(), repr=False)
    ask_again_at: float = field(default=0.0, repr=False, compare=False)  # `cancelled` does not look before
    held: "list[BufferedJob] | None" = field(
        default=None, repr=False
    )  # enqueued by its handler: see mayfly.queue.followups
    trail: RunProgress | None = field(default=None, repr=False)  # of a handler that tells how far it is
    awaited: bool = field(default=True, repr=False, compare=False)  # by a batch or a chain, if it has a group

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy each time: a handler may change it without changing the job."""
        loaded: dict[str, Any] = json_text.decode(self.payload_text)
        return loaded

    @property
    def batch(self) -> Batch | None:
        """The batch that it is a child of; `with job.batch:` adds siblings."""
        return None if self.group_key is None else batch_of(self.lifeline.database, self.group_key)

    @property
    def previous(self) -> Any:
        """What the step before it in its chain returned; None for the first, or where there is no chain."""
        if self.group_key is None:
            return None
        asked = {"job_id": self.id}
        text = self.lifeline.database.read(lambda connection: connection.execute(PREVIOUS, asked).scalar())
        return None if text is None else json_text.decode(text)

    def transaction(self) -> "AbstractContextManager[SqlConnection]":
        """Writes in this block and the job's `done` commit together: effects here happen exactly once.

        The block should be the last thing a handler does: when it ends, the job is done.
        """
        return self.lifeline.transaction(self)

    def write(self, work: "Callable[[SqlConnection], T]") -> T:
        """Call `work(connection)` in a transaction of its own, committed when this returns; returns its result.

        The commit does not depend on the outcome of the job: use it for what must be stored before an external effect
        happens. `work` is called again after a deadlock, and after a COMMIT whose reply was lost: it must be
        idempotent. `connection` is a SQLAlchemy Connection.
        """
        if self.lifeline.in_transaction:
            reason = "it would not be committed before the job is done; write before the transaction begins"
            raise RefusedInTransaction("write", reason)
        return self.lifeline.database.run_lent(work)

    def read(self, work: "Callable[[SqlConnection], T]") -> T:
        """Call `work(connection)` to query the database; returns its result. It must not write.

        `connection` is a SQLAlchemy Connection, inside job.transaction() the transaction's own.
        """
        return self.lifeline.database.run_lent(work, Unit.LOOK)

    @property
    def now(self) -> datetime:
        """The database's time, in UTC: the one clock that all hosts share."""
        return self.lifeline.database.clock.now()

    @property
    def cancelled(self) -> bool:
        """Whether somebody wants this job to end: raise Cancel where that does no harm. Cheap to ask in a loop.

        The database is asked once a second at most; a job that returns all the same is done.
        """
        if self.special is not None and self.special.cancel_reason is not None:
            return True
        now = monotonic()
        if now < self.ask_again_at:
            return False
        self.ask_again_at = now + CANCEL_POLL_SECONDS
        mine = (self.id, self.lifeline.worker_id, self.claims)
        reason = self.lifeline.database.read(lambda connection: cancel_request(connection, *mine))
        if reason is not None:
            self.special = (self.special or RareFields())._replace(cancel_reason=reason)
        return reason is not None

    @property
    def state(self) -> Any:
        """What the last checkpoint said, be it of this run or an earlier one; None before the first. A fresh copy."""
        kept = self.special.checkpoint if self.special is not None else None
        return None if kept is None else json_text.decode(kept)

    def checkpoint(self, state: Any) -> None:
        """Keep how far the work is, as JSON: another run finds it in `job.state`, whatever ended this one.

        Ends the handler here if its window nears its end: the next cycle goes on, and no attempt is spent.
        """
        self._trail().checkpoint(self, state)

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Show people how far the work is. May be called as often as you like: it is written once a second."""
        self._trail().progress(self, done, total, text)

    def note_checkpoint(self, text: str) -> None:
        """As the row has it now."""
        self.special = (self.special or RareFields())._replace(checkpoint=text, stalled=MOVED)

    @property
    def has_moved(self) -> bool:
        """Whether this run has brought it further than it was."""
        return self.special is not None and self.special.stalled == MOVED

    def _trail(self) -> RunProgress:
        if self.trail is None:
            self.trail = RunProgress(self.lifeline.window(self).started)
        return self.trail

    @property
    def on_doubt(self) -> str | None:
        """The lane's word on effects that may have happened already: "hold", "resend", or None where it has none."""
        return self.lifeline.on_doubt(self.lane)

    def take(self, key: str, *, or_snooze: bool = False) -> "Grant":
        """Ask for a unit of a limit that the handler declares in `takes` (or `limits`): job.take("sender:42").

        The answer is true if it is granted, and has `opens_at` if not. With `or_snooze=True` the job is put off until
        then instead, and no attempt is spent. What is granted of a concurrency is given back when the job ends.
        """
        grant = self.lifeline.take(self, key)
        if or_snooze:
            grant.or_snooze()
        return grant


CURRENT_JOB: ContextVar[Job | None] = ContextVar("mayfly_running", default=None)


def current_job() -> Job | None:
    """The job whose handler calls this, however deep; None outside of a handler."""
    return CURRENT_JOB.get()


def parent_id() -> int | None:
    """The parent of jobs that are enqueued here."""
    job = current_job()
    return None if job is None else job.id


def cancel_request(connection: Connection, job_id: int, worker_id: str, claims: int) -> str | None:
    """Why somebody wants a job to end that this owner runs; None if nobody does, or if it is not his any more."""
    values = {"id": job_id, "owner": worker_id, "token": claims}
    reason: str | None = connection.execute(cancel_request_statement(), values).scalar()
    return reason


@cache
def cancel_request_statement() -> str:
    fence = "id = :id AND worker_id = :owner AND claims = :token"
    return f"SELECT cancel_reason FROM mayfly_jobs WHERE {fence}"
