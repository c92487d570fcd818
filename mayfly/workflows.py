"""Jobs that belong together: batch() runs a callback when all of its jobs have ended, chain() runs one by one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from secrets import token_hex
from types import TracebackType
from typing import Any, Self, Unpack

from mayfly import json_text
from mayfly.admin.batches import abandon_batch
from mayfly.client import current_app, now_of, validate_job
from mayfly.db.connection import AnyConnection, open_connection
from mayfly.errors import BadChain, BadField, BatchClosed, BatchExists, UnknownOption
from mayfly.job import Batch, Job, joined_batch
from mayfly.queue import batches as table
from mayfly.queue.batches import NewBatch, seal_batch
from mayfly.queue.failure import storable
from mayfly.queue.followups import NOT_BATCHES, NewChain, buffer_job, buffering_job, insert_chain
from mayfly.queue.insert import FutureJob
from mayfly.queue.options import StepOptions, timedelta_of
from mayfly.schema.tables import KEY_LENGTH, SCHEDULED

# --- steps ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A job that is enqueued later; made by `step`."""

    type: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    options: StepOptions = field(default_factory=StepOptions)


StepLike = Step | str | tuple[Any, ...] | list[Any]  # whatever chain() takes as a step, or as several


def step(type: str, payload: Mapping[str, Any] | None = None, **options: Unpack[StepOptions]) -> Step:
    """A job of a chain, or the callback of a batch, with these arguments of `enqueue`: lane, priority, max_attempts,
    delay. The delay is counted from the moment when it would otherwise be due."""
    unknown = options.keys() - StepOptions.__annotations__
    if unknown:
        raise UnknownOption("step", min(unknown), StepOptions.__annotations__)
    return Step(type, {} if payload is None else payload, options)


def as_step(given: object) -> Step:
    """From a type, a type and a payload, or what `step` made."""
    match given:
        case Step():
            return given
        case str(type_name) | (str(type_name),):
            return step(type_name)
        case (str(type_name), Mapping() | None as payload):
            return step(type_name, payload)
    raise BadChain(f"{given!r:.100} is no step")


def flattened(given: Iterable[object], around: tuple[int, ...] = ()) -> Iterator[Step]:
    """The steps in nested lists, in order."""
    for each in given:
        if not isinstance(each, list):
            yield as_step(each)
        elif id(each) in around:
            raise BadChain("a list of steps contains itself")
        else:
            yield from flattened(each, (*around, id(each)))


def _future_job(given: Step, connection: AnyConnection | None = None, group_key: str | None = None) -> FutureJob:
    """Validated now, where the producer can still correct it; inserted when the job before it is done."""
    options = given.options.copy()
    delay = options.pop("delay", None)
    new = validate_job(connection, given.type, given.payload, group_key=group_key, **options)
    return FutureJob(new, 0.0 if delay is None else timedelta_of("delay", delay).total_seconds())


# --- batches ----------------------------------------------------------------------------------------------


def batch(name: str, *, on_complete: Step | str | tuple[object, ...] | None = None) -> "OwnBatch":
    """What is enqueued in the block belongs together; `on_complete` runs once when the last of its jobs has ended.

    If the block raises, the batch is abandoned: its pending jobs are cancelled, and `on_complete` never runs.
    """
    return OwnBatch(_checked(name), _callback_json(name, on_complete))


class OwnBatch(Batch):
    """A batch that this process opened and fills."""

    def __init__(self, key: str, on_complete: str | None) -> None:
        super().__init__(key)
        self.is_open = False
        self._on_complete = on_complete
        self._job: Job | None = None
        self._buffered_before = 0

    def __enter__(self) -> Self:
        """Inside a handler the whole batch is buffered, and written in the transaction that settles its job."""
        app, self._job = current_app(), buffering_job()
        self._new = NewBatch(self.key, self._on_complete, app.now())
        if self._job is not None:
            self._buffered_before = len(self._job.held or ())
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
            self._exit_in_handler(self._job, error)
        elif error is not None:
            abandon_batch(current_app().database, self.key, f"{type(error).__name__}: {error}")
        elif not seal_batch(current_app().database, self.key):
            raise BatchClosed(
                self.key,
                "it was sealed or abandoned elsewhere while it was being filled; jobs enqueued since then "
                "are in its group, see `mayfly batches`, and `mayfly cancel --group` if they should not run",
            )

    def _exit_in_handler(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            buffer_job(job, [self._new])
        elif job.held is not None:
            del job.held[self._buffered_before :]


def _checked(name: str) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= KEY_LENGTH or storable(name) != name:
        raise BadField("batch", name, f"a text of 1 to {KEY_LENGTH} characters that every database can hold")
    if name.startswith(NOT_BATCHES):
        raise BadField("batch", name, f"a name that does not begin with {' or '.join(NOT_BATCHES)}")
    return name


def _callback_json(name: str, on_complete: object) -> str | None:
    """With the payload that it will have when it is enqueued, so that it is refused now if that does not fit."""
    if on_complete is None:
        return None
    given = as_step(on_complete)
    if "batch" in given.payload:
        reason = 'without a field "batch", which is where the callback gets the batch\'s results'
        raise BadField("on_complete", given.payload, reason)
    callback = Step(given.type, {**given.payload, "batch": table.report(name)}, given.options)
    return json_text.encode(_future_job(callback).to_dict())


# --- chains -----------------------------------------------------------------------------------------------


def chain(*steps: StepLike, group_key: str | None = None, connection: Any = None) -> int | None:
    """Enqueue the first step, and each other when the one before it is done; returns the id of the first job.

    A step that is dead or cancelled ends the chain. Inside a handler the chain is buffered as by `enqueue`, and None
    is returned; inside a batch all of its steps are jobs of the batch.
    """
    given = None if connection is None else open_connection(connection)
    new = _new_chain([*flattened(steps)], group_key, given)
    if given is not None:
        return insert_chain(given, new)
    job = buffering_job()
    if job is not None:
        buffer_job(job, [new])
        return None
    return current_app().database.run(lambda own: insert_chain(own, new), twice=False)


def _new_chain(steps: list[Step], group_key: str | None, given: AnyConnection | None) -> NewChain:
    """All steps are validated before the first is enqueued."""
    if not steps:
        raise BadChain("a chain needs at least one step")
    if isinstance(group_key, str) and group_key.startswith(SCHEDULED):
        raise BadField("group_key", group_key, f"one that does not begin with {SCHEDULED}")
    if group_key is None and joined_batch(None) is None:
        group_key = f"chain:{token_hex(8)}"  # only jobs with a group are checked for following steps when they end
    first, *rest = [_future_job(each, given, group_key) for each in steps]
    start = first.starting_at(now_of(given)) if first.delay else first.job
    return NewChain(start, json_text.encode([each.to_dict() for each in rest]))
