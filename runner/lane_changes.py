"""A runner whose lane is empty continues in a lane that waits for a slot, if that has the same settings.

It saves a process, its connection and its registration. Everything else is as with a new runner: the lanes are taken
in the order of the plan, and no lane gets more runners than planned.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.clock import monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.fleet.lane_queue import LaneQueue, WaitingLane, open_queue
from mayfly.fleet.runners import Entry, enter_lane
from mayfly.job import FULL_WINDOW, Job
from mayfly.process import timing
from mayfly.process.state_dir import lane_queue_path

if TYPE_CHECKING:
    from runner.main import Runner

ENTRY_TIMEOUT_SECONDS = 2.0  # planning takes milliseconds
ENTRY_PAUSE_SECONDS = (0.005, 0.02)


@dataclass
class LaneChanges:
    runner: "Runner"
    settings: str  # of the lanes that this runner may serve
    queue: LaneQueue | None = None  # None until the first lane waits

    def claim(self) -> list[Job]:
        """Jobs of the next waiting lane that has any; empty if there is none for this runner."""
        while self._seconds_left >= timing().min_window_seconds and self.runner.guard.may_start:
            waiting = self._take()
            if waiting is None:
                return []
            batch = self._enter(waiting)
            if batch:
                return batch
        return []

    def _take(self) -> WaitingLane | None:
        path = lane_queue_path(self.runner.page.path.parent, self.runner.assignment.cycle_id)
        self.queue = self.queue or open_queue(path)
        return None if self.queue is None else self.queue.take(self.settings)

    @property
    def _seconds_left(self) -> float:
        return self.runner.assignment.deadline - monotonic()

    def _enter(self, waiting: WaitingLane) -> list[Job]:
        """Empty if the lane has a runner by now, or no jobs for this one."""
        runner, until = self.runner, monotonic() + ENTRY_TIMEOUT_SECONDS
        has_full_window = self._seconds_left >= FULL_WINDOW * runner.assignment.window_seconds
        begins_with = waiting.begins_with if has_full_window else None
        earlier = [*runner.pauses.left_lanes, runner.pauses.lane]
        entry: Entry | None = None  # not asked: the lane has no jobs

        def may_enter(connection: Connection) -> bool:
            nonlocal entry
            entry = enter_lane(connection, runner.assignment.worker_id, waiting.lane, earlier)
            return entry is Entry.ENTERED

        number_before = runner.page.lane_number
        runner.page.note_lane(waiting.number)
        batch = runner.claims.next_in(waiting.lane, begins_with, may_enter)
        while entry is Entry.PLANNING and monotonic() < until:
            pause_between(*ENTRY_PAUSE_SECONDS)
            entry = None
            batch = runner.claims.next_in(waiting.lane, begins_with, may_enter)
        if batch is None:
            runner.page.note_lane(number_before)
            return []
        runner.assignment = runner.claims.assignment
        runner.pauses.left_lanes = earlier
        runner.log.write(log_messages.lane_entered(waiting.lane))
        return batch
