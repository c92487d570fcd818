"""Decide how many jobs the next claim asks for. Pure: values in, values out."""

import fcntl
import os
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

from mayfly.clock import monotonic, pause, pause_between
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment, renew_heartbeat, take_over
from mayfly.job import Job
from mayfly.process.identity import this_process
from mayfly.process.state_dir import turns_path
from mayfly.queue.claim import Claimant, ClaimCursor, Claimed, claim, jobs_from
from mayfly.queue.count import has_due
from mayfly.queue.followups import mark_awaited
from mayfly.queue.pauses import Pause, Pauses, load_pauses, resume_jobs
from mayfly.queue.rescue import long_lease
from runner.settle_buffer import SettleBuffer

MAX_CLAIM = 1000
TARGET_BATCH_SECONDS = 0.5  # what a runner holds is about this much of its own work
MIN_JOBS_TO_YIELD = 10  # jobs: fewer nobody notices
YIELD_FACTOR = 9  # times as long as it took to put them off: a lane takes a tenth of one runner's time
MAX_YIELD_SECONDS = 2.0


def next_claim(size: int, jobs: int, seconds: float) -> int:
    """Double while a full claim would take less than half of what may be held, halve when it takes more than all."""
    expected = seconds / jobs * size
    if expected > TARGET_BATCH_SECONDS:
        return max(1, size // 2)
    if expected < TARGET_BATCH_SECONDS / 2:
        return min(MAX_CLAIM, size * 2)
    return size


def yield_seconds(seconds: float, runners: int) -> float:
    """How long to rest after a claim of which nothing could run: a million of them must not slow other lanes down.

    The longer, the more runners the lane has: what they take together is what others feel.
    """
    return min(YIELD_FACTOR * seconds * runners, MAX_YIELD_SECONDS)


class PauseCache:
    def __init__(self, lane: str) -> None:
        self._lane = lane
        self._of_lane: Pause | None = None
        self.types: dict[str, Pause] = {}  # one object for all its life: the invoker looks into it for each job
        self._seen: set[str] = set()  # types that were ever paused

    def read(self, connection: Connection, now: datetime) -> None:
        self._learn(load_pauses(connection, now))

    def of_lane(self, now: datetime) -> Pause | None:
        return self._of_lane if self._of_lane is not None and self._of_lane.holds(now) else None

    def bring_back(self, database: Database) -> None:
        """What this runner put off although the pause had just ended: whoever ended it could not see that any more.

        For the end of a runner's life, when all it did is written. Most have seen no pause, and are not asked.
        """
        if self._seen:
            now = database.clock.now()
            database.read(lambda connection: self.read(connection, now))
            for each in self._seen - self.types.keys():
                resume_jobs(database, each, [self._lane])

    def _learn(self, known: Pauses) -> None:
        self._of_lane = known.lanes.get(self._lane)
        self.types.clear()
        self.types.update(known.types)
        self._seen.update(known.types)


LOCK_TIMEOUT_SECONDS = 0.1
POLL_SECONDS = (0.0005, 0.0015)
CURSOR_SECONDS = 1.0  # for so long at most an older job that comes back is not seen
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NOTE = struct.Struct("=dqq")  # monotonic seconds of the last look from the beginning; priority and run_at


class ClaimLock:
    """A small file of each lane. Its lock ends with the process that has it."""

    def __init__(self, directory: Path, lane: str) -> None:
        self._lane = lane.encode()
        number = crc32(self._lane)  # which every file system takes; lanes that share one wait for each other
        self._file = os.open(turns_path(directory, number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def turn(self) -> Iterator[None]:
        has_it = self._wait()
        try:
            yield
        finally:
            if has_it:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _wait(self) -> bool:
        until = monotonic() + LOCK_TIMEOUT_SECONDS
        while not (has_it := self._take()) and monotonic() < until:
            pause_between(*POLL_SECONDS)
        return has_it

    def _take(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def front(self) -> ClaimCursor | None:
        """Where the next claim may begin; None for one that has to look from the beginning."""
        looked_at, priority, run_at = self._read()
        if not 0 <= monotonic() - looked_at < CURSOR_SECONDS:
            return None
        return ClaimCursor(priority, EPOCH + run_at * MICROSECOND)

    def note(self, before: ClaimCursor | None, reached: ClaimCursor | None) -> None:
        """What a claim found that began with the one: as many as it wanted up to the other, or fewer."""
        if reached is None:
            os.ftruncate(self._file, 0)
            return
        looked_at = monotonic() if before is None else self._read()[0]
        noted = NOTE.pack(looked_at, reached.priority, (reached.run_at - EPOCH) // MICROSECOND)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, noted + self._lane, 0)

    def _read(self) -> tuple[float, int, int]:
        """What another lane with the same number has noted is nothing to us."""
        noted = os.pread(self._file, NOTE.size + len(self._lane) + 1, 0)
        return NOTE.unpack_from(noted) if noted[NOTE.size :] == self._lane else (-CURSOR_SECONDS, 0, 0)


BEAT_SECONDS = 10.0
EMPTY_TRIES = 4
EMPTY_PAUSE_SECONDS = 0.01
MIN_BATCH_FOR_CLAIM_LOCK = 100  # jobs: a smaller claim is made before it is in anybody's way


class Claims:
    """What one runner takes from its lane, and the signs of life it gives there."""

    def __init__(
        self,
        database: Database,
        outbox: SettleBuffer,
        assignment: Assignment,
        batch_size: int,
        turns: ClaimLock | None = None,
        pausing: PauseCache | None = None,  # None: pauses are not asked for
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
        mark_awaited(self._database, claimed)
        return claimed

    def _claim_in_turn(self, claimant: Claimant, size: int) -> Claimed:
        turns = self._turns if size >= MIN_BATCH_FOR_CLAIM_LOCK else None
        if turns is None:
            return self._claim_now(claimant, size)
        with turns.turn():
            front = turns.front()
            taken = self._claim_now(claimant, size, front)
            turns.note(front, taken.cursor)
        return taken

    def _claim_now(self, claimant: Claimant, size: int, front: ClaimCursor | None = None) -> Claimed:
        now = self._database.clock.now()
        return self._database.run(lambda connection: self._claim_on(connection, claimant, size, now, front))

    def _lease_until(self) -> datetime:
        """One runner's all end together, unless it may live for hours: then each is renewed in time."""
        told = self._assignment
        return self._database.clock.now() + long_lease() if told.is_long else told.lease_until

    def _claim_on(
        self, connection: Connection, claimant: Claimant, size: int, now: datetime, front: ClaimCursor | None
    ) -> Claimed:
        """With the first claim this process, and no more its planner, stands behind the runner's row."""
        if not self._has_taken_over:
            take_over(connection, claimant.worker_id, this_process(), now)
            if self._pausing is not None:
                self._pausing.read(connection, now)
        if self.pause is not None:
            return Claimed((), was_due=False)
        return claim(connection, claimant, size, now, front)

    def has_due(self) -> bool:
        """A look without locks, which takes nothing."""
        now, lane = self._database.clock.now(), self._assignment.lane
        return self._database.read(lambda connection: has_due(connection, lane, now))

    def _note(self, batch: list[Job]) -> None:
        self._fresh = self._fresh and not batch
        self._claimed_at = monotonic()
        if self._claimed_at - self._beaten_at >= BEAT_SECONDS:
            self._beaten_at = self._claimed_at
            now = self._database.clock.now()
            self._database.once(lambda connection: renew_heartbeat(connection, self._assignment.worker_id, now))
            if self._pausing is not None:
                pausing = self._pausing
                self._database.read(lambda connection: pausing.read(connection, now))
