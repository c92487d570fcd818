"""Batches as those see them who enqueue into one: what is enqueued while one is joined becomes its child."""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mayfly.errors import BadField, BatchClosed

if TYPE_CHECKING:
    from mayfly.engine import Database

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
        raise BatchClosed(batch.key)
    return batch


def batch_of(database: "Database", group_key: str) -> Batch | None:
    """The open batch whose child a running job is: while it runs, siblings may join."""
    found = database.read(lambda connection: connection.execute(IS_OPEN, {"key": group_key}).first())
    return None if found is None else Batch(group_key)
