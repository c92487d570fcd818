"""From one minute's dispatcher to the next: who lingers gives the host lock to whoever asks for it."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from dispatcher.context import CycleContext
from dispatcher.lock import HostLock, take_lock
from dispatcher.supervise import TICK_SECONDS, Supervisor
from mayfly import log_messages
from mayfly.clock import host_now, monotonic, pause
from mayfly.db.connection import Connection
from mayfly.fleet.dispatchers import note_leaving, planner
from mayfly.process.fork import HANDOVER
from mayfly.queue.count import find_lanes, lanes_with_due

TAKE_OVER_TIMEOUT_SECONDS = 5.0  # a plan that the other one has begun takes milliseconds, unless the database is slow
POLL_SECONDS = 0.01


def take_over(path: Path) -> HostLock | None:
    """Ask the one that holds the lock; None where that does not linger, or does not answer."""
    holder = planner(path)
    if holder is None or not holder.lingers or not holder.process.tell(HANDOVER):
        return None
    deadline = monotonic() + TAKE_OVER_TIMEOUT_SECONDS
    while (lock := take_lock(path)) is None and monotonic() < deadline:
        pause(POLL_SECONDS)
    return lock


def hand_over(world: CycleContext, lock: HostLock, supervisor: Supervisor, cycle_id: int) -> None:
    """The next dispatcher plans from here on. Our runners start nothing more, and we see them to their end."""
    note_leaving(world.directory, cycle_id, world.process)
    lock.hand_over()
    supervisor.retire()
    world.log.say(log_messages.handed_over(supervisor.alive))


IDLE_SECONDS = 1.0  # between two looks when nothing has come for a while, and between two looks for new lanes


class Linger:
    """When to look, where, and for how long. It only looks: what is found is planned like anything else."""

    def __init__(self, world: CycleContext) -> None:
        self._world = world
        self._until = world.lingers_until(world.settings.longest_linger)
        self._wait = world.settings.poll_interval
        self._look_at = monotonic() + self._wait
        self._lanes: list[str] = []
        self._find_at = 0.0
        self.looks = 0
        self.plans = 0

    @property
    def goes_on(self) -> bool:
        return monotonic() < self._until

    @property
    def seconds(self) -> float:
        """How long the supervisor may wait for something else to happen."""
        if not self.goes_on:
            return TICK_SECONDS
        return max(0.0, min(TICK_SECONDS, self._look_at - monotonic()))

    def begin(self) -> None:
        if self.goes_on:
            left = timedelta(seconds=self._until - monotonic())
            self._world.log.say(log_messages.lingering(host_now() + left, self._world.settings.poll_interval))

    def end(self) -> None:
        """A successor has come, or something is wrong: nothing is looked for any more."""
        self._until = 0.0

    def sees_work(self) -> bool:
        """Whether a lane that lingers has due jobs; always False until the next look is due."""
        if not self.goes_on or monotonic() < self._look_at:
            return False
        self.looks += 1
        found = self._world.database.read(self._look)
        self._rest(longer=not found)  # while work comes, a runner may leave at any time
        return found

    def note_plan(self) -> None:
        """Something has come, and more may follow."""
        self.plans += 1
        self._rest(longer=False)

    def note_end(self) -> None:
        """A runner has left a lane that may have nobody now."""
        self._rest(longer=False)

    def left_alone(self, broken: Iterable[str]) -> frozenset[str]:
        """The lanes that a look is not for: those that do not linger, and those where no runner can work."""
        return frozenset(broken).union(lane for lane in self._lanes if not self._lingers(lane))

    def idle(self, supervisor: Supervisor) -> Mapping[str, int] | None:
        """The runners that will take what has come; nobody's matter in a cycle that does not linger."""
        return supervisor.idle() if self._world.settings.longest_linger else None

    def _look(self, connection: Connection) -> bool:
        now = monotonic()
        if now >= self._find_at:
            self._lanes = find_lanes(connection)
            self._find_at = now + IDLE_SECONDS
        lanes = [lane for lane in self._lanes if self._lingers(lane)]
        return bool(lanes_with_due(connection, lanes, self._world.database.clock.now()))

    def _lingers(self, lane: str) -> bool:
        resolved = self._world.settings.lane(lane)
        if resolved.external or not self._world.serves(lane) or not resolved.linger:
            return False
        return monotonic() < self._world.lingers_until(resolved.linger)

    def _rest(self, longer: bool) -> None:
        usual = self._world.settings.poll_interval
        self._wait = max(usual, min(2 * self._wait, IDLE_SECONDS)) if longer else usual
        self._look_at = monotonic() + self._wait
