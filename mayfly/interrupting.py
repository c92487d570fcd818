"""`mayfly interrupt`: end the dispatchers of this host early, as before a deploy. Running jobs may finish."""

import signal
from collections.abc import Iterator, Sequence

from mayfly.actor import Actor
from mayfly.clock import monotonic
from mayfly.errors import MayflyError
from mayfly.fleet.dispatchers import Dispatcher, all_here
from mayfly.jobs.audit import Deed
from mayfly.opening import open_database
from mayfly.settings import Settings
from mayfly.statedir import state_dir


def end_dispatchers(settings: Settings, timeout: float, dry_run: bool, actor: Actor) -> Iterator[tuple[str, bool]]:
    """What is found and what becomes of it, in sentences; and whether each is as it should be."""
    found = all_here(state_dir(settings))
    if not found:
        yield "No dispatcher of this host runs.", True
    deadline = monotonic() + timeout
    for each in found:
        yield f"Dispatcher {each.process.pid} {_manner(each)}.", True
    if found and not dry_run:
        yield from _end(found, deadline, timeout)
        yield from _note(settings, actor)


def _note(settings: Settings, actor: Actor) -> Iterator[tuple[str, bool]]:
    """In the audit, if it can be: dispatchers are ended while the database is away, too."""
    try:
        database = open_database(settings)
        deed = Deed(actor, "interrupt", f"host {settings.host_name}", database.clock.now())
        database.run(deed.note)
    except MayflyError as error:
        yield f"Who ended them is not in the audit: {error}", True


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
