"""From one minute's dispatcher to the next: who lingers gives the host lock to whoever asks for it."""

from pathlib import Path

from dispatcher.lock import HostLock, take_lock
from dispatcher.supervise import Supervisor
from dispatcher.world import World
from mayfly import events
from mayfly.clock import monotonic, pause
from mayfly.fleet.dispatchers import note_leaving, planner
from mayfly.signals import HANDOVER

PATIENCE_SECONDS = 5.0  # a plan that the other one has begun takes milliseconds, unless the database is slow
LOOK_SECONDS = 0.01


def take_over(path: Path) -> HostLock | None:
    """Ask the one that holds the lock; None where that does not linger, or does not answer."""
    holder = planner(path)
    if holder is None or not holder.lingers or not holder.process.tell(HANDOVER):
        return None
    deadline = monotonic() + PATIENCE_SECONDS
    while (lock := take_lock(path)) is None and monotonic() < deadline:
        pause(LOOK_SECONDS)
    return lock


def hand_over(world: World, lock: HostLock, supervisor: Supervisor, cycle_id: int) -> None:
    """The next dispatcher plans from here on. Our runners start nothing more, and we see them to their end."""
    note_leaving(world.directory, cycle_id, world.process)
    lock.hand_over()
    supervisor.retire()
    world.log.say(events.handed_over(supervisor.alive))
