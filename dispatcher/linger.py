"""Lingering: poll for new work after the first plan, and hand the host lock to the next minute's dispatcher."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.lock import HostLock, take_lock
from dispatcher.steps import CycleStep
from dispatcher.supervise import TICK_SECONDS
from mayfly import log_messages
from mayfly.clock import host_now, monotonic, pause
from mayfly.db.connection import Connection
from mayfly.fleet.dispatchers import forget_leaving, note_leaving, planner
from mayfly.process.fork import HANDOVER
from mayfly.queue.count import find_lanes, lanes_with_due

if TYPE_CHECKING:
    from dispatcher.cycle import Cycle

TAKE_OVER_TIMEOUT_SECONDS = 5.0  # finishing a plan takes the other one milliseconds, unless the database is slow
TAKE_OVER_POLL_SECONDS = 0.01
IDLE_POLL_SECONDS = 1.0  # between two polls when there was no work for a while, and between two searches for lanes


def take_over(path: Path) -> HostLock | None:
    """Ask the holder of the lock for it; None if that does not linger, or does not answer."""
    holder = planner(path)
    if holder is None or not holder.lingers or not holder.process.send_signal(HANDOVER):
        return None
    deadline = monotonic() + TAKE_OVER_TIMEOUT_SECONDS
    while (lock := take_lock(path)) is None and monotonic() < deadline:
        pause(TAKE_OVER_POLL_SECONDS)
    return lock


class Linger(CycleStep):
    """Decides when to poll, which lanes, and for how long. New work is planned like any other."""

    def __init__(self, cycle: "Cycle") -> None:
        super().__init__(cycle)
        settings = self.context.settings
        self._until = self.context.lingers_until(settings.longest_linger)
        self._interval = settings.poll_interval
        self._poll_at = monotonic() + self._interval
        self._lanes: list[str] = []
        self._find_lanes_at = 0.0
        self._polls = 0
        self._plans = 0

    @property
    def goes_on(self) -> bool:
        return monotonic() < self._until

    @property
    def seconds_to_poll(self) -> float:
        """How long the supervisor may wait for other events."""
        if not self.goes_on:
            return TICK_SECONDS
        return max(0.0, min(TICK_SECONDS, self._poll_at - monotonic()))

    def after_spawn(self) -> None:
        if self.goes_on:
            left = timedelta(seconds=self._until - monotonic())
            self.context.log.say(log_messages.lingering(host_now() + left, self.context.settings.poll_interval))

    def on_tick(self) -> None:
        if self.cycle.supervisor.must_hand_over:
            self._hand_over()

    def finish(self) -> None:
        forget_leaving(self.context.directory, self.cycle.planned.cycle_id)

    def summary_lines(self) -> list[str]:
        return [f"Polls while lingering: {self._polls}, further plans: {self._plans}"] if self._polls else []

    def stop(self) -> None:
        """Poll no more: something has failed."""
        self._until = 0.0

    def finds_work(self) -> bool:
        """Whether a lingering lane has due jobs; always False until the next poll is due."""
        if not self.goes_on or monotonic() < self._poll_at:
            return False
        self._polls += 1
        found = self.context.database.read(self._poll)
        self._schedule_poll(longer=not found)  # while there is work, a runner may exit at any time
        return found

    def note_plan(self) -> None:
        """New work was found, and more may follow."""
        self._plans += 1
        self._schedule_poll(longer=False)

    def note_exit(self) -> None:
        """A runner has exited; its lane may have none now."""
        self._schedule_poll(longer=False)

    def lanes_to_skip(self, broken: Iterable[str]) -> frozenset[str]:
        """Lanes that a poll is not for: those that do not linger, and those whose runners cannot work."""
        return frozenset(broken).union(lane for lane in self._lanes if not self._lingers(lane))

    def idle_runners(self) -> Mapping[str, int] | None:
        """By lane, the runners that will take new work; None in a cycle that does not linger."""
        return self.cycle.supervisor.idle_by_lane() if self.context.settings.longest_linger else None

    def _hand_over(self) -> None:
        """The next dispatcher plans from here on; this one supervises its runners until they have exited."""
        note_leaving(self.context.directory, self.cycle.planned.cycle_id, self.context.process)
        self.cycle.lock.hand_over()
        self.cycle.supervisor.retire()
        self.context.log.say(log_messages.handed_over(self.cycle.supervisor.alive))

    def _poll(self, connection: Connection) -> bool:
        now = monotonic()
        if now >= self._find_lanes_at:
            self._lanes = find_lanes(connection)
            self._find_lanes_at = now + IDLE_POLL_SECONDS
        lanes = [lane for lane in self._lanes if self._lingers(lane)]
        return bool(lanes_with_due(connection, lanes, self.context.database.clock.now()))

    def _lingers(self, lane: str) -> bool:
        resolved = self.context.settings.lane(lane)
        if resolved.external or not self.context.serves(lane) or not resolved.linger:
            return False
        return monotonic() < self.context.lingers_until(resolved.linger)

    def _schedule_poll(self, longer: bool) -> None:
        shortest = self.context.settings.poll_interval
        self._interval = max(shortest, min(2 * self._interval, IDLE_POLL_SECONDS)) if longer else shortest
        self._poll_at = monotonic() + self._interval
