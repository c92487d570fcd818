"""Decide how many jobs may run side by side. Pure: values in, values out."""

from collections import Counter
from collections.abc import Iterable

from mayfly.registry import Handler


def free_slots(handler: Handler, limit: int, running: Counter[str]) -> int:
    """How many more of this type fit beside what runs: `running` counts that by type."""
    free = limit - running.total()
    return free if handler.threads is None else min(free, handler.threads - running[handler.type])


def room_for_more(handlers: Iterable[Handler], limit: int, running: Counter[str]) -> int:
    """How many may be claimed so that all of them fit, if they are of the types that the last claim had."""
    return max(0, min((free_slots(each, limit, running) for each in handlers), default=0))
