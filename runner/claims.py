"""The claims of one runner: each as large as the last one's speed, or the free slots, allow."""

import random
from datetime import datetime

from mayfly.clock import monotonic, pause
from mayfly.connection import Connection
from mayfly.engine import Database
from mayfly.fleet.place import this_process
from mayfly.fleet.runners import Assignment, beat, take_over
from mayfly.job import Job
from mayfly.jobs.awaited import note_awaited
from mayfly.jobs.claim import Claimant, Claimed, Front, claim, jobs_from
from mayfly.jobs.looks import has_due
from mayfly.jobs.pauses import Pause
from mayfly.jobs.renew import long_lease
from mayfly.schema import JOBS
from runner.outbox import Outbox
from runner.pace import next_claim
from runner.pausing import Pausing
from runner.turns import Turns

BEAT_SECONDS = 10.0
EMPTY_TRIES = 4
EMPTY_PAUSE_SECONDS = 0.01
WORTH_A_TURN = 100  # jobs: a smaller claim is made before it is in anybody's way


class Claims:
    """What one runner takes from its lane, and the signs of life it gives there."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        assignment: Assignment,
        batch_size: int,
        turns: Turns | None = None,
        pausing: Pausing | None = None,  # None: pauses are not asked for
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._assignment = assignment
        self._size = batch_size
        self._turns = turns
        self._pausing = pausing
        self._has_taken_over = False
        self._fresh = True  # nothing was claimed yet
        self.needs_fresh = False  # the last claim met a job that only a runner without a past may take
        self._was_due = False  # there was more than the last claim could take
        self._timed = 0  # jobs of the last claim, if the time they took tells how large the next one should be
        self._claimed_at = self._beaten_at = monotonic()

    @property
    def lane(self) -> str:
        return self._assignment.lane

    def next(self) -> list[Job]:
        """For a runner that holds nothing. An empty answer means that the lane is empty."""
        if self._timed:
            self._size = next_claim(self._size, self._timed, monotonic() - self._claimed_at)
        batch = self._claim_surely()
        self._timed = len(batch)
        self._note(batch)
        return batch

    def more(self, count: int) -> list[Job]:
        """For free slots beside jobs that run, which are not kept waiting: an empty answer may mean `not yet`."""
        batch = self._claim(count)
        self._timed = 0
        self._note(batch)
        return batch

    @property
    def pause(self) -> Pause | None:
        """Of the lane: nothing is claimed while it holds."""
        return self._pausing.of_lane(self._database.clock.now()) if self._pausing is not None else None

    def _claim_surely(self) -> list[Job]:
        """An empty answer is believed if nothing was due, or after a few tries."""
        batch: list[Job] = []
        for tries in range(EMPTY_TRIES):
            batch = self._claim(self._size)
            if batch or not self._was_due:
                break
            pause(random.uniform(0.5, 1) * EMPTY_PAUSE_SECONDS * (tries + 1))  # noqa: S311 - spreads rivals
        return batch

    def _claim(self, size: int) -> list[Job]:
        """What the last batch has left to settle goes first, and not on the time of those who wait for their turn."""
        self._outbox.flush()
        self._database.connect()
        told = self._assignment
        first = told.begins_with if self._fresh else None
        claimant = Claimant(told.worker_id, told.lane, self._lease_until(), self._fresh, first)
        taken = self._claim_in_turn(claimant, size)
        self._has_taken_over = True
        self.needs_fresh = taken.needs_fresh
        self._was_due = taken.was_due and not taken.needs_fresh
        claimed = jobs_from(taken, told.lane)
        note_awaited(self._database, claimed)
        return claimed

    def _claim_in_turn(self, claimant: Claimant, size: int) -> Claimed:
        turns = self._turns if size >= WORTH_A_TURN else None
        if turns is None:
            return self._claim_now(claimant, size)
        with turns.turn():
            front = turns.front()
            taken = self._claim_now(claimant, size, front)
            turns.note(front, taken.front)
        return taken

    def _claim_now(self, claimant: Claimant, size: int, front: Front | None = None) -> Claimed:
        now = self._database.clock.now()
        return self._database.run(lambda connection: self._claim_on(connection, claimant, size, now, front))

    def _lease_until(self) -> datetime:
        """One runner's all end together, unless it may live for hours: then each is renewed in time."""
        told = self._assignment
        return self._database.clock.now() + long_lease() if told.is_long else told.lease_until

    def _claim_on(
        self, connection: Connection, claimant: Claimant, size: int, now: datetime, front: Front | None
    ) -> Claimed:
        """With the first claim this process, and no more its planner, stands behind the runner's row."""
        if not self._has_taken_over:
            take_over(connection, claimant.worker_id, this_process(), now)
            if self._pausing is not None:
                self._pausing.read(connection, now)
        if self.pause is not None:
            return Claimed((), was_due=False)
        return claim(connection, JOBS, claimant, size, now, front)

    def has_due(self) -> bool:
        """A look without locks, which takes nothing."""
        now, lane = self._database.clock.now(), self._assignment.lane
        return self._database.read(lambda connection: has_due(connection, JOBS, lane, now))

    def _note(self, batch: list[Job]) -> None:
        self._fresh = self._fresh and not batch
        self._claimed_at = monotonic()
        if self._claimed_at - self._beaten_at >= BEAT_SECONDS:
            self._beaten_at = self._claimed_at
            now = self._database.clock.now()
            self._database.once(lambda connection: beat(connection, self._assignment.worker_id, now))
            if self._pausing is not None:
                pausing = self._pausing
                self._database.read(lambda connection: pausing.read(connection, now))
