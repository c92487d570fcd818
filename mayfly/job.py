"""A claimed job: the row as its runner and its handler see it."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mayfly import jsontext
from mayfly.errors import OutsideARunner

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from mayfly.engine import Database
    from mayfly.jobs.enqueue import NewJob


class Special(NamedTuple):
    """What few jobs have."""

    expires_at: datetime | None = None
    checkpoint: str | None = None  # JSON
    slices: int = 0
    stalled: int = 0
    cancel_reason: str | None = None


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
    held: "list[NewJob] | None" = field(default=None, repr=False)  # enqueued by its handler: see mayfly.jobs.held

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy each time: a handler may change it without changing the job."""
        loaded: dict[str, Any] = jsontext.decode(self.payload_text)
        return loaded

    def transaction(self) -> "AbstractContextManager[Connection]":
        """Writes in this block and the job's `done` commit together: effects here happen exactly once.

        The block should be the last thing a handler does: when it ends, the job is done.
        """
        return self.lifeline.transaction(self)
