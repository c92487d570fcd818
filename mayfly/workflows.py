"""Jobs to come, as people write them down: a batch's callback, the steps of a chain."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

from mayfly import json_text
from mayfly.admin.batches import abandon_batch
from mayfly.client import admit, current_app, now_of
from mayfly.db.connection import AnyConnection, open_connection
from mayfly.errors import BadField, BadStep, BatchExists, BatchTaken, ChainContainsItself, EmptyChain
from mayfly.job import Batch, Job, joined_batch
from mayfly.queue import batches as table
from mayfly.queue.batches import NewBatch, seal_batch
from mayfly.queue.failure import storable
from mayfly.queue.followups import NOT_BATCHES, NewChain, buffer_job, buffering_job, insert_chain
from mayfly.queue.insert import FutureJob
from mayfly.queue.options import parse_duration
from mayfly.queue.outcome import Seconds
from mayfly.schema.tables import KEY_LENGTH, SCHEDULED


@dataclass(frozen=True)
class Step:
    """One job of several; made by `step`."""

    type: str
    payload: Mapping[str, Any] | None = None
    lane: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    delay: Seconds | None = None

    def admitted(self, given: AnyConnection | None = None, group_key: str | None = None) -> FutureJob:
        """Checked now, when somebody can still be told; enqueued when its time has come."""
        new = admit(
            given,
            type=self.type,
            payload={} if self.payload is None else self.payload,
            lane=self.lane,
            priority=self.priority,
            max_attempts=self.max_attempts,
            group_key=group_key,
        )
        return FutureJob(new, 0.0 if self.delay is None else parse_duration("delay", self.delay).total_seconds())


def step(
    type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    lane: str | None = None,
    priority: int | None = None,
    max_attempts: int | None = None,
    delay: Seconds | None = None,
) -> Step:
    """A job of a chain, or a batch's callback, with the arguments of `enqueue`. Its delay counts from its turn on."""
    return Step(type, payload, lane, priority, max_attempts, delay)


def as_step(given: object) -> Step:
    """From a type, a type and a payload, or what `step` made."""
    match given:
        case Step():
            return given
        case str(type_name) | (str(type_name),):
            return Step(type_name)
        case (str(type_name), Mapping() | None as payload):
            return Step(type_name, payload)
    raise BadStep(given)


def flattened(given: Iterable[object], around: tuple[int, ...] = ()) -> Iterator[Step]:
    """Steps in lists are taken one by one, as if they stood beside the others."""
    for each in given:
        if not isinstance(each, list):
            yield as_step(each)
        elif id(each) in around:
            raise ChainContainsItself
        else:
            yield from flattened(each, (*around, id(each)))


def batch(name: str, *, on_complete: "Step | str | tuple[object, ...] | None" = None) -> "OwnBatch":
    """What is enqueued in the block belongs together; `on_complete` runs once when the last of it has ended.

    If the block raises, the batch is abandoned: what waits in it is cancelled, and `on_complete` never runs.
    """
    return OwnBatch(_checked(name), _admitted_callback(name, on_complete))


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
        app, self._job = current_app(), buffering_job()
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
            abandon_batch(current_app().database, self.key, f"{type(error).__name__}: {error}")
        elif not seal_batch(current_app().database, self.key):
            raise BatchTaken(self.key)

    def _end_held(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            buffer_job(job, [self._new])
        elif job.held is not None:
            del job.held[self._held_before :]


def _checked(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= KEY_LENGTH or storable(name) != name:
        raise BadField("batch", name, f"a text of 1 to {KEY_LENGTH} characters that every database can hold")
    if name.startswith(NOT_BATCHES):
        raise BadField("batch", name, f"a name that does not begin with {' or '.join(NOT_BATCHES)}")
    return name


def _admitted_callback(name: str, on_complete: object) -> str | None:
    """With what its payload will have when it is enqueued, so that it is refused now if it does not fit then."""
    if on_complete is None:
        return None
    given = as_step(on_complete)
    if given.payload is not None and "batch" in given.payload:
        raise BadField(
            "on_complete", given.payload, 'without a field "batch": that is where it is told how the batch went'
        )
    told = replace(given, payload={**(given.payload or {}), "batch": table.report(name)})
    return json_text.encode(told.admitted().to_dict())


Given = Step | str | tuple[Any, ...] | list[Any]


def chain(*steps: Given, group_key: str | None = None, connection: Any = None) -> int | None:
    """Enqueue the first step, and each other when the one before it is done; the first one's id.

    A step that is dead or cancelled ends the chain. Inside a handler it is held back as `enqueue` is, and None is
    returned; inside a batch all of its steps are the batch's children.
    """
    given = None if connection is None else open_connection(connection)
    new = _admitted_steps([*flattened(steps)], group_key, given)
    if given is not None:
        return insert_chain(given, new)
    job = buffering_job()
    if job is not None:
        buffer_job(job, [new])
        return None
    return current_app().database.run(lambda own: insert_chain(own, new), twice=False)


def _admitted_steps(steps: list[Step], group_key: str | None, given: Any) -> NewChain:
    """All steps pass the door before the first is enqueued."""
    if not steps:
        raise EmptyChain
    if isinstance(group_key, str) and group_key.startswith(SCHEDULED):
        raise BadField("group_key", group_key, f"one that does not begin with {SCHEDULED}")
    if group_key is None and joined_batch(None) is None:
        group_key = f"chain:{token_hex(8)}"  # whoever settles a job of some group looks whether it is a step
    first, *rest = [each.admitted(given, group_key=group_key) for each in steps]
    start = first.starting_at(now_of(given)) if first.delay else first.job
    return NewChain(start, json_text.encode([each.to_dict() for each in rest]))
