"""`mayfly interrupt`: end the dispatchers of this host early, as before a deploy. Running jobs may finish."""

import signal
from collections.abc import Iterator, Sequence

from mayfly.clock import monotonic
from mayfly.fleet.dispatchers import Dispatcher, all_here
from mayfly.settings import Settings
from mayfly.statedir import state_dir


def end_dispatchers(settings: Settings, timeout: float, dry_run: bool) -> Iterator[tuple[str, bool]]:
    """What is found and what becomes of it, in sentences; and whether each is as it should be."""
    found = all_here(state_dir(settings))
    if not found:
        yield "No dispatcher of this host runs.", True
    deadline = monotonic() + timeout
    for each in found:
        yield f"Dispatcher {each.process.pid} {_manner(each)}.", True
    if not dry_run:
        yield from _end(found, deadline, timeout)


def _end(found: Sequence[Dispatcher], deadline: float, timeout: float) -> Iterator[tuple[str, bool]]:
    """All are told before the first is waited for."""
    for each in found:
        each.process.tell(signal.SIGTERM)
    for each in found:
        if each.process.has_ended_within(max(0.0, deadline - monotonic())):
            yield f"Dispatcher {each.process.pid} has ended.", True
        else:
            yield f"Dispatcher {each.process.pid} is still there after {timeout:g} s: its jobs take longer.", False


def _manner(dispatcher: Dispatcher) -> str:
    if dispatcher.is_leaving:
        return "has handed over and waits for its last runners"
    return "lingers" if dispatcher.lingers else "is at work"
