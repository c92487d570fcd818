"""`chain(a, b, c)`: each step is enqueued when the one before it is done, and sees what that returned."""

from secrets import token_hex
from typing import Any

from mayfly import jsontext
from mayfly.app import current_app, now_of
from mayfly.errors import BadField, EmptyChain
from mayfly.jobs.chains import NewChain, insert_chain
from mayfly.jobs.foreign import open_connection
from mayfly.jobs.held import hold, holder
from mayfly.joining import joined
from mayfly.schema import JOBS, SCHEDULED
from mayfly.steps import Step, flattened

Given = Step | str | tuple[Any, ...] | list[Any]


def chain(*steps: Given, group_key: str | None = None, connection: Any = None) -> int | None:
    """Enqueue the first step, and each other when the one before it is done; the first one's id.

    A step that is dead or cancelled ends the chain. Inside a handler it is held back as `enqueue` is, and None is
    returned; inside a batch all of its steps are the batch's children.
    """
    given = None if connection is None else open_connection(connection)
    new = _admitted([*flattened(steps)], group_key, given)
    if given is not None:
        return insert_chain(given, JOBS, new)
    job = holder()
    if job is not None:
        hold(job, [new])
        return None
    return current_app().database.run(lambda own: insert_chain(own, JOBS, new), twice=False)


def _admitted(steps: list[Step], group_key: str | None, given: Any) -> NewChain:
    """All steps pass the door before the first is enqueued."""
    if not steps:
        raise EmptyChain
    if isinstance(group_key, str) and group_key.startswith(SCHEDULED):
        raise BadField("group_key", group_key, f"one that does not begin with {SCHEDULED}")
    if group_key is None and joined(None) is None:
        group_key = f"chain:{token_hex(8)}"  # whoever settles a job of some group looks whether it is a step
    first, *rest = [each.admitted(given, group_key=group_key) for each in steps]
    start = first.due_from(now_of(given)) if first.delay else first.job
    return NewChain(start, jsontext.encode([each.packed() for each in rest]))
