"""Claim batches: how many jobs a claim asks for, the claim lock of a host's runners, and pauses."""

import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

from mayfly.clock import monotonic, pause_between
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment, renew_heartbeat, take_over
from mayfly.job import Job
from mayfly.process.identity import this_process
from mayfly.process.state_dir import turns_path
from mayfly.queue.claim import Claimant, ClaimCursor, Claimed, claim, jobs_from
from mayfly.queue.count import has_due
from mayfly.queue.followups import mark_awaited
from mayfly.queue.outcome import Outcome
from mayfly.queue.pauses import Pause, load_pauses, resume_jobs
from mayfly.queue.policy import skip_outcome
from mayfly.queue.rescue import long_lease
from runner.batch import Reject, admit_each
from runner.settle_buffer import SettleBuffer

MAX_CLAIM = 1000
TARGET_BATCH_SECONDS = 0.5  # a runner holds about this much of its own work
HEARTBEAT_SECONDS = 10.0
LOCKED_TIMEOUT_SECONDS = 2.0  # how long a claim is repeated while other runners have locked all due jobs
LOCKED_PAUSE_SECONDS = (0.01, 0.1)  # between two tries: the first and the longest

MIN_BATCH_FOR_CLAIM_LOCK = 100  # jobs: a smaller claim ends before it is in the way of others
LOCK_TIMEOUT_SECONDS = 0.1
LOCK_POLL_SECONDS = (0.0005, 0.0015)
CURSOR_SECONDS = 1.0  # for so long at most an older job that was released is not found
CURSOR = struct.Struct("=dqq")  # monotonic seconds of the last scan from the beginning; priority and run_at
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Claim = Callable[[int], list[Job]]
ClaimMiddleware = Callable[[Claim], Claim]


def next_claim_size(size: int, jobs: int, seconds: float) -> int:
    """Double while a full claim would take less than half of the target, halve when it takes more than all of it."""
    expected = seconds / jobs * size
    if expected > TARGET_BATCH_SECONDS:
        return max(1, size // 2)
    if expected < TARGET_BATCH_SECONDS / 2:
        return min(MAX_CLAIM, size * 2)
    return size


class PauseCache:
    """The pauses that concern one runner; as an admission step it snoozes jobs of paused types."""

    def __init__(self, lane: str, database: Database) -> None:
        self._lane = lane
        self._database = database
        self._of_lane: Pause | None = None
        self._of_types: dict[str, Pause] = {}
        self._seen: set[str] = set()  # types that were paused at any time

    def read(self, connection: Connection, now: datetime) -> None:
        known = load_pauses(connection, now)
        self._of_lane = known.lanes.get(self._lane)
        self._of_types = dict(known.types)
        self._seen.update(known.types)

    def lane_pause(self, now: datetime) -> Pause | None:
        return self._of_lane if self._of_lane is not None and self._of_lane.holds(now) else None

    def admit(self, jobs: Iterable[Job], reject: Reject) -> Iterable[Job]:
        if not self._of_types:
            return jobs

        def outcome_of(job: Job) -> Outcome | None:
            return skip_outcome(job, self._of_types.get(job.type), self._database.clock.now())

        return admit_each(jobs, outcome_of, reject)

    def resume_snoozed(self) -> None:
        """Resume jobs that this runner snoozed just after a pause had ended: `mayfly resume` could not see them.

        At the end of a runner, when all is written. Most runners have seen no pause and query nothing.
        """
        if self._seen:
            now = self._database.clock.now()
            self._database.read(lambda connection: self.read(connection, now))
            for each in self._seen - self._of_types.keys():
                resume_jobs(self._database, each, [self._lane])


class ClaimLock:
    """A small file per lane, locked during large claims. The lock ends with the process that holds it.

    Without it a drain of a million jobs takes 16 % longer on MariaDB: SKIP LOCKED visits every locked row.
    """

    def __init__(self, directory: Path, lane: str) -> None:
        self._lane = lane.encode()
        number = crc32(self._lane)  # valid in any file name; lanes that share one wait for each other
        self._file = os.open(turns_path(directory, number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def hold(self) -> Iterator[None]:
        is_held = self._acquire()
        try:
            yield
        finally:
            if is_held:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _acquire(self) -> bool:
        until = monotonic() + LOCK_TIMEOUT_SECONDS
        while not (is_held := self._try_acquire()) and monotonic() < until:
            pause_between(*LOCK_POLL_SECONDS)
        return is_held

    def _try_acquire(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def cursor(self) -> ClaimCursor | None:
        """Where the next claim may start; None for one that must start from the beginning."""
        scanned_at, priority, run_at = self._read()
        if not 0 <= monotonic() - scanned_at < CURSOR_SECONDS:
            return None
        return ClaimCursor(priority, EPOCH + run_at * MICROSECOND)

    def store_cursor(self, before: ClaimCursor | None, reached: ClaimCursor | None) -> None:
        """After a claim that started at `before`; `reached` is None if it found fewer jobs than it asked for."""
        if reached is None:
            os.ftruncate(self._file, 0)
            return
        scanned_at = monotonic() if before is None else self._read()[0]
        stored = CURSOR.pack(scanned_at, reached.priority, (reached.run_at - EPOCH) // MICROSECOND)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, stored + self._lane, 0)

    def _read(self) -> tuple[float, int, int]:
        """The cursor of another lane with the same number does not count."""
        stored = os.pread(self._file, CURSOR.size + len(self._lane) + 1, 0)
        return CURSOR.unpack_from(stored) if stored[CURSOR.size :] == self._lane else (-CURSOR_SECONDS, 0, 0)


class Claims:
    """The claims of one runner in its lane, and its heartbeat."""

    def __init__(
        self,
        database: Database,
        buffer: SettleBuffer,
        assignment: Assignment,
        batch_size: int,
        lock: ClaimLock | None = None,
        pauses: PauseCache | None = None,  # None: pauses are ignored
        middleware: Sequence[ClaimMiddleware] = (),
    ) -> None:
        self._database = database
        self._buffer = buffer
        self._assignment = assignment
        self._size = batch_size
        self._lock = lock
        self._pauses = pauses
        self._has_taken_over = False
        self._fresh = True  # nothing was claimed yet
        self.needs_fresh = False  # the last claim met a job that only a fresh runner may claim
        self._was_due = False  # more was due than the last claim could lock
        self._timed_jobs = 0  # of the last claim, if their time decides the size of the next one
        self._claimed_at = self._heartbeat_at = monotonic()
        self._claim_batch: Claim = self._claim
        for each in middleware:
            self._claim_batch = each(self._claim_batch)

    @property
    def lane(self) -> str:
        return self._assignment.lane

    @property
    def pause(self) -> Pause | None:
        """Of the lane: nothing is claimed meanwhile."""
        return self._pauses.lane_pause(self._database.clock.now()) if self._pauses is not None else None

    def next(self) -> list[Job]:
        """For a runner that holds no jobs. An empty result means that the lane is empty.

        If jobs were due and other runners had locked them all, the claim is repeated for a while: a runner that
        left now would leave to the next cycle what the others do not claim.
        """
        if self._timed_jobs:
            self._size = next_claim_size(self._size, self._timed_jobs, monotonic() - self._claimed_at)
        batch = self._claim_batch(self._size)
        until, (wait, max_wait) = monotonic() + LOCKED_TIMEOUT_SECONDS, LOCKED_PAUSE_SECONDS
        while not batch and self._was_due and monotonic() < until:
            pause_between(wait / 2, wait)
            wait = min(2 * wait, max_wait)
            batch = self._claim_batch(self._size)
        self._timed_jobs = len(batch)
        self._note(batch)
        return batch

    def more(self, count: int) -> list[Job]:
        """For free slots beside running jobs, which must not wait: an empty result may mean `not yet`."""
        batch = self._claim_batch(count)
        self._timed_jobs = 0
        self._note(batch)
        return batch

    def has_due(self) -> bool:
        """Without locks; claims nothing."""
        now, lane = self._database.clock.now(), self._assignment.lane
        return self._database.read(lambda connection: has_due(connection, lane, now))

    def _claim(self, size: int) -> list[Job]:
        """Outcomes of the last batch are written first, before the lock is held."""
        self._buffer.flush()
        assigned, now = self._assignment, self._database.clock.now()
        claimant = Claimant(
            assigned.worker_id,
            assigned.lane,
            now + long_lease() if assigned.is_long else assigned.lease_until,
            self._fresh,
            assigned.begins_with if self._fresh else None,
        )
        if self._lock is not None and size >= MIN_BATCH_FOR_CLAIM_LOCK:
            claimed = self._claim_locked(self._lock, claimant, size)
        else:
            claimed = self._database.run(lambda c: self._claim_in_transaction(c, claimant, size, now, None))
        self._has_taken_over = True
        self.needs_fresh = claimed.needs_fresh
        self._was_due = claimed.was_due and not claimed.needs_fresh
        jobs = jobs_from(claimed, assigned.lane)
        if any(job.group_key is not None for job in jobs):
            mark_awaited(self._database, jobs)
        return jobs

    def _claim_locked(self, lock: ClaimLock, claimant: Claimant, size: int) -> Claimed:
        """One runner per lane and host at a time, from where the last one stopped."""
        self._database.connect()  # before other runners wait for the lock
        with lock.hold():
            cursor, now = lock.cursor(), self._database.clock.now()
            claimed = self._database.run(lambda c: self._claim_in_transaction(c, claimant, size, now, cursor))
            lock.store_cursor(cursor, claimed.cursor)
        return claimed

    def _claim_in_transaction(
        self, connection: Connection, claimant: Claimant, size: int, now: datetime, cursor: ClaimCursor | None
    ) -> Claimed:
        """With the first claim the runner's row names this process instead of its planner."""
        if not self._has_taken_over:
            take_over(connection, claimant.worker_id, this_process(), now)
            if self._pauses is not None:
                self._pauses.read(connection, now)
        if self.pause is not None:
            return Claimed((), was_due=False)
        return claim(connection, claimant, size, now, cursor)

    def _note(self, batch: list[Job]) -> None:
        self._fresh = self._fresh and not batch
        self._claimed_at = monotonic()
        if self._claimed_at - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._heartbeat_at = self._claimed_at
            self._renew_heartbeat()

    def _renew_heartbeat(self) -> None:
        now, pauses = self._database.clock.now(), self._pauses
        self._database.once(lambda connection: renew_heartbeat(connection, self._assignment.worker_id, now))
        if pauses is not None:
            self._database.read(lambda connection: pauses.read(connection, now))
