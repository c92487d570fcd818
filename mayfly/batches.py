"""`with batch("campaign-7", on_complete=…):` makes what is enqueued in the block one thing that ends."""

from dataclasses import replace
from types import TracebackType
from typing import Self

from mayfly import jsontext
from mayfly.app import current_app
from mayfly.errors import BadField, BatchExists, BatchTaken
from mayfly.job import Job
from mayfly.jobs import batches as table
from mayfly.jobs.batches import NewBatch
from mayfly.jobs.filling import abandon_batch, seal_batch
from mayfly.jobs.follow import NOT_BATCHES
from mayfly.jobs.held import hold, holder
from mayfly.joining import Batch
from mayfly.schema import JOBS, KEY_LENGTH
from mayfly.steps import Step, as_step
from mayfly.wording import storable


def batch(name: str, *, on_complete: "Step | str | tuple[object, ...] | None" = None) -> "OwnBatch":
    """What is enqueued in the block belongs together; `on_complete` runs once when the last of it has ended.

    If the block raises, the batch is abandoned: what waits in it is cancelled, and `on_complete` never runs.
    """
    return OwnBatch(_checked(name), _admitted(name, on_complete))


class OwnBatch(Batch):
    """One that is being filled by who opened it."""

    def __init__(self, key: str, on_complete: str | None) -> None:
        super().__init__(key)
        self.is_open = False
        self._on_complete = on_complete
        self._job: Job | None = None
        self._held_before = 0

    def __enter__(self) -> Self:
        """Inside a handler the whole batch is held back, and written with its job's `done`."""
        app, self._job = current_app(), holder()
        self._new = NewBatch(self.key, self._on_complete, app.now())
        if self._job is not None:
            self._held_before = len(self._job.held or ())
            is_new = not app.database.read(lambda connection: table.is_taken(connection, self.key))
        else:
            is_new = app.database.run(lambda connection: table.open_batch(connection, self._new))
        if not is_new:
            raise BatchExists(self.key)
        self.is_open = True
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self.is_open = False
        if self._job is not None:
            self._end_held(self._job, error)
        elif error is not None:
            abandon_batch(current_app().database, JOBS, self.key, f"{type(error).__name__}: {error}")
        elif not seal_batch(current_app().database, JOBS, self.key):
            raise BatchTaken(self.key)

    def _end_held(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            hold(job, [self._new])
        elif job.held is not None:
            del job.held[self._held_before :]


def _checked(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= KEY_LENGTH or storable(name) != name:
        raise BadField("batch", name, f"a text of 1 to {KEY_LENGTH} characters that every database can hold")
    if name.startswith(NOT_BATCHES):
        raise BadField("batch", name, f"a name that does not begin with {' or '.join(NOT_BATCHES)}")
    return name


def _admitted(name: str, on_complete: object) -> str | None:
    """With what its payload will have when it is enqueued, so that it is refused now if it does not fit then."""
    if on_complete is None:
        return None
    given = as_step(on_complete)
    if given.payload is not None and "batch" in given.payload:
        raise BadField(
            "on_complete", given.payload, 'without a field "batch": that is where it is told how the batch went'
        )
    told = replace(given, payload={**(given.payload or {}), "batch": table.report(name)})
    return jsontext.encode(told.admitted().packed())
