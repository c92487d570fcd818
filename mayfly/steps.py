"""Jobs to come, as people write them down: a batch's callback, the steps of a chain."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mayfly.app import admit
from mayfly.errors import BadStep, ChainContainsItself
from mayfly.jobs.foreign import AnyConnection
from mayfly.jobs.later import Later
from mayfly.jobs.terms import span_of
from mayfly.outcome import Seconds


@dataclass(frozen=True)
class Step:
    """One job of several; made by `step`."""

    type: str
    payload: Mapping[str, Any] | None = None
    lane: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    delay: Seconds | None = None

    def admitted(self, given: AnyConnection | None = None, group_key: str | None = None) -> Later:
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
        return Later(new, 0.0 if self.delay is None else span_of("delay", self.delay).total_seconds())


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
