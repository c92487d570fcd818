"""A claimed job: the row as its runner and its handler see it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from mayfly import jsontext
from mayfly.clock import monotonic
from mayfly.errors import OutsideARunner, WriteInTransaction
from mayfly.jobs.looks import wish_to_cancel
from mayfly.joining import Batch, batch_of
from mayfly.schema import JOBS
from mayfly.slicing import MOVED
from mayfly.trail import Trail, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from mayfly.connection import Connection as Written
    from mayfly.engine import Database
    from mayfly.jobs.held import Held
    from mayfly.limits.takings import Grant


T = TypeVar("T")

PREVIOUS = "SELECT previous FROM mayfly_chains WHERE job_id = :job_id"
ASK_SECONDS = 1.0


class Special(NamedTuple):
    """What few jobs have."""

    expires_at: datetime | None = None
    checkpoint: str | None = None  # JSON
    slices: int = 0
    stalled: int = 0  # slices in a row that brought it no further; below 0 once this run has
    cancel_reason: str | None = None
    forgiven: int = 0  # crashes since its last slice that a changed checkpoint has cleared


class Lifeline(Protocol):
    """What a job may ask of its runner while its handler runs, be it in the main thread, another, or on the loop."""

    @property
    def worker_id(self) -> str: ...

    @property
    def database(self) -> "Database":
        """The one to use on the thread that asks."""

    @property
    def in_transaction(self) -> bool:
        """Whether the handler has asked for one: what is written on its thread then commits with its job."""

    def transaction(self, job: "Job") -> "AbstractContextManager[Connection]": ...

    def window(self, job: "Job") -> Window:
        """Since when its handler runs, and until when it may."""

    def keep_checkpoint(self, job: "Job", text: str, moved: bool) -> None:
        """Raises HandlerEnded if the job is to be cancelled, or no longer ours."""

    def keep_progress(self, job: "Job", text: str) -> None:
        """Raises LeaseGone if the job is no longer ours."""

    def take(self, job: "Job", key: str) -> "Grant": ...

    def on_doubt(self, lane: str) -> str | None: ...


class _NoLifeline:
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
    special: Special | None = None
    lifeline: Lifeline = field(default=_NoLifeline(), repr=False)
    ask_again_at: float = field(default=0.0, repr=False, compare=False)  # `cancelled` does not look before
    held: "list[Held] | None" = field(default=None, repr=False)  # enqueued by its handler: see mayfly.jobs.held
    trail: Trail | None = field(default=None, repr=False)  # of a handler that tells how far it is
    awaited: bool = field(default=True, repr=False, compare=False)  # by a batch or a chain, if it has a group

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy each time: a handler may change it without changing the job."""
        loaded: dict[str, Any] = jsontext.decode(self.payload_text)
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
        return None if text is None else jsontext.decode(text)

    def transaction(self) -> "AbstractContextManager[Connection]":
        """Writes in this block and the job's `done` commit together: effects here happen exactly once.

        The block should be the last thing a handler does: when it ends, the job is done.
        """
        return self.lifeline.transaction(self)

    def write(self, work: "Callable[[Written], T]") -> T:
        """Let `work(connection)` write something that is committed when this returns, whatever becomes of the job.

        For what must be known before an effect outside happens. It is repeated after a deadlock, and after a COMMIT
        whose answer was lost, so it must bear to be done twice.
        """
        if self.lifeline.in_transaction:
            raise WriteInTransaction
        return self.lifeline.database.run(work)

    def read(self, work: "Callable[[Written], T]") -> T:
        """Let `work(connection)` look something up: what it finds is not locked, and nothing may be written."""
        return self.lifeline.database.read(work)

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
        self.ask_again_at = now + ASK_SECONDS
        mine = (self.id, self.lifeline.worker_id, self.claims)
        reason = self.lifeline.database.read(lambda connection: wish_to_cancel(connection, JOBS, *mine))
        if reason is not None:
            self.special = (self.special or Special())._replace(cancel_reason=reason)
        return reason is not None

    @property
    def state(self) -> Any:
        """What the last checkpoint said, be it of this run or an earlier one; None before the first. A fresh copy."""
        kept = self.special.checkpoint if self.special is not None else None
        return None if kept is None else jsontext.decode(kept)

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
        self.special = (self.special or Special())._replace(checkpoint=text, stalled=MOVED)

    @property
    def has_moved(self) -> bool:
        """Whether this run has brought it further than it was."""
        return self.special is not None and self.special.stalled == MOVED

    def _trail(self) -> Trail:
        if self.trail is None:
            self.trail = Trail(self.lifeline.window(self).started)
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
