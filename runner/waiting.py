"""Lingering: a runner whose lane is empty waits for the next job, and takes it itself.

Of the runners of a host that wait in one lane, one polls as often as jobs arrive; the others take its place when it
is busy or has ended.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly.clock import monotonic
from mayfly.job import Job
from mayfly.process import timing
from mayfly.process.state_dir import poll_lock_path
from mayfly.queue.arrivals import Arrivals
from runner.batch import BatchReport
from runner.claims import lane_hash

if TYPE_CHECKING:
    from runner.main import Runner

SPARE_SHARE = 1 / 3  # of the time that the polling runner waits without a job
MAX_POLL_SECONDS = 0.2  # as long as a runner waits: a job after ten seconds of silence starts within 0.3 s
LOCK_POLL_SECONDS = 0.02  # a lock that is free twice in a row is not just released for a quick job


def install(runner: "Runner", until: float) -> None:
    """`until`: when it stops waiting, because too little of its window is left."""
    wait = LaneWait(runner, until)
    runner.claims.polls_when_empty = True
    runner.after_batch.append(wait.note_batch)
    runner.idle_steps.append(wait.wait)


class PollLock:
    """A small file per lane. The kernel releases the lock when its holder exits."""

    def __init__(self, directory: Path, lane: str) -> None:
        path = poll_lock_path(directory, lane_hash(lane))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def try_acquire(self) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._file)


class LaneWait:
    """The waits of one runner, and how jobs have arrived in its lane meanwhile."""

    def __init__(self, runner: "Runner", until: float) -> None:
        self._guard = runner.guard
        self._claims = runner.claims
        self._buffer = runner.buffer
        self._until = until
        self._longest = min(runner.settings.poll_interval, MAX_POLL_SECONDS)
        self._directory = runner.page.path.parent
        self._enter(runner.assignment.lane)

    def _enter(self, lane: str) -> None:
        self._lane, self._lock = lane, PollLock(self._directory, lane)
        self._is_poller = True
        self._arrivals = Arrivals(monotonic())
        self._queried_at = monotonic()

    def note_batch(self, batch: Sequence[Job], _report: BatchReport, seconds: float) -> None:
        """`seconds` since the claim of this batch began."""
        self._queried_at = monotonic() - seconds
        self._arrivals = self._arrivals.plus(len(batch), self._queried_at)

    def wait(self) -> bool:
        """Wait until a job is due; False if the wait has ended without one."""
        if self._claims.assignment.lane != self._lane:
            self._lock.close()
            self._enter(self._claims.assignment.lane)
        started = monotonic()
        ends_at = min(self._until, started + timing().idle_runner_seconds)
        spare_until = min(self._until, started + timing().idle_runner_seconds * SPARE_SHARE)
        try:
            return self._take_lock(spare_until) and self._poll(ends_at)
        finally:
            self._lock.release()

    def _take_lock(self, ends_at: float) -> bool:
        """At once if this runner polled before; otherwise the poller of this lane must be busy or have exited."""
        while self._guard.may_start and monotonic() < ends_at:
            was_free = self._lock.try_acquire()
            if was_free and self._is_poller:
                return True
            self._is_poller = was_free
            self._lock.release()
            self._guard.pause(LOCK_POLL_SECONDS)
        return False

    def _poll(self, ends_at: float) -> bool:
        while self._guard.may_start and (now := monotonic()) < ends_at:
            poll_at = min(ends_at, self._queried_at + self._arrivals.poll_seconds(now, self._longest))
            while self._guard.may_start and now < poll_at:
                self._guard.pause(poll_at - now)
                now = monotonic()
            self._buffer.write()
            self._queried_at = monotonic()
            if self._guard.may_start and self._claims.has_due():
                return True
        return False
