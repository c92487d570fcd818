"""A claimed job: the row as its runner and its handler see it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from mayfly import jsontext

if TYPE_CHECKING:
    from sqlalchemy import Connection

Transaction = Callable[["Job"], "AbstractContextManager[Connection]"]


def _outside_a_runner(_job: "Job") -> "AbstractContextManager[Connection]":
    raise RuntimeError("job.transaction() works only while a runner runs the job")


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
    open_transaction: Transaction = field(default=_outside_a_runner, repr=False)

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy each time: a handler may change it without changing the job."""
        loaded: dict[str, Any] = jsontext.decode(self.payload_text)
        return loaded

    def transaction(self) -> "AbstractContextManager[Connection]":
        """Writes in this block and the job's `done` commit together: effects here happen exactly once.

        The block should be the last thing a handler does: when it ends, the job is done.
        """
        return self.open_transaction(self)
