"""Lingering: a runner whose lane is empty waits for the next job, and takes it itself.

Of the runners of a host that wait in one lane, one receives wake-ups and polls: as often as jobs arrive that no
wake-up announces. The others take its place when it is busy or has ended.
"""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from mayfly.clock import monotonic
from mayfly.errors import WakeDirUnsafe
from mayfly.job import Job
from mayfly.process import timing
from mayfly.process.state_dir import lane_hash, poll_lock_path
from mayfly.process.wakeups import Wakeup, WakeupSocket, socket_name
from mayfly.queue.arrivals import NONE_EXPECTED, Arrivals
from mayfly.queue.followups import has_followups
from runner.batch import BatchReport

if TYPE_CHECKING:
    from runner.main import Runner

SPARE_SHARE = 1 / 3  # of the time that the polling runner waits without a job
MAX_POLL_SECONDS = 0.2  # as long as a runner waits: a job after ten seconds of silence starts within 0.3 s
LOCK_POLL_SECONDS = 0.05
FREE_LOCK_SECONDS = 0.02  # a lock that is free twice in a row is not just released for a quick job


def install(runner: "Runner", until: float) -> None:
    """`until`: when it stops waiting, because too little of its window is left."""
    wait = LaneWait(runner, until)
    runner.claims.polls_when_empty = True
    runner.after_batch.append(wait.note_batch)
    runner.idle_steps.append(wait.wait)
    runner.on_close.append(wait.close)


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
        self._settings = runner.settings
        self._directory = runner.page.path.parent
        self._socket: WakeupSocket | None = None  # while this runner polls
        self._enter(runner.assignment.lane)

    def _enter(self, lane: str) -> None:
        self._lane, self._lock = lane, PollLock(self._directory, lane)
        self._is_poller = True
        self._announced = 0  # jobs that wake-ups have announced and that are not claimed yet
        self._arrivals = Arrivals(monotonic())  # without announced jobs
        self._queried_at = monotonic()

    def note_batch(self, batch: Sequence[Job], _report: BatchReport, seconds: float) -> None:
        """`seconds` since the claim of this batch began."""
        claimed_at = monotonic() - seconds
        if any(has_followups(job) for job in batch):  # their successors may be in this lane
            self._queried_at = -inf
        elif not self._announced:
            self._queried_at = claimed_at
        if self._announced and not self._arrivals.gap_seconds:  # all jobs so far were announced
            self._arrivals = NONE_EXPECTED
        self._arrivals = self._arrivals.plus(len(batch) - self._announced, claimed_at)
        self._announced = 0

    @property
    def _longest(self) -> float:
        """While wake-ups announce all jobs, polls are as rare as those of a lane without a waiting runner."""
        interval = self._settings.poll_interval
        return interval if self._arrivals is NONE_EXPECTED else min(interval, MAX_POLL_SECONDS)

    def wait(self) -> bool:
        """Wait until a job is due; False if the wait has ended without one."""
        if self._claims.assignment.lane != self._lane:
            self.close()
            self._enter(self._claims.assignment.lane)
        if self._announced:
            self._expect_soon()
        started = monotonic()
        ends_at = min(self._until, started + timing().idle_runner_seconds)
        spare_until = min(self._until, started + timing().idle_runner_seconds * SPARE_SHARE)
        try:
            return self._take_lock(spare_until) and (self._poll(ends_at) or self._has_late())
        finally:
            self._lock.release()

    def close(self) -> None:
        self._lock.close()
        self._close_socket()

    def _take_lock(self, ends_at: float) -> bool:
        """At once if this runner polled before; otherwise the poller of this lane must be busy or have exited."""
        while self._guard.may_start and monotonic() < ends_at:
            was_free = self._lock.try_acquire()
            if was_free and self._is_poller:
                self._open_socket()
                return True
            self._is_poller = was_free
            self._lock.release()
            self._close_socket()
            self._guard.pause(FREE_LOCK_SECONDS if was_free else LOCK_POLL_SECONDS)
        return False

    def _open_socket(self) -> None:
        """Jobs that were announced to another process are found by a query."""
        if self._socket is not None and self._socket.is_bound:
            return
        self._close_socket()
        self._queried_at = -inf
        with suppress(WakeDirUnsafe):  # the dispatcher has logged it
            self._socket = WakeupSocket(self._settings, socket_name(self._lane))

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _poll(self, ends_at: float) -> bool:
        """Until a poll or a wake-up finds a job."""
        while self._guard.may_start and (now := monotonic()) < ends_at:
            self._buffer.write()
            interval = self._arrivals.poll_seconds(now, self._longest) + timing().extra_poll_seconds
            poll_at = self._queried_at + interval
            received = [] if self._socket is None else self._socket.receive()
            if now < poll_at and len(received) == 1 and received[0].job_id is not None:
                self._announced = 1
                self._claims.expect(received[0].job_id)
                return True
            if now < poll_at and not received:
                self._guard.pause(min(poll_at, ends_at) - monotonic(), self._socket)
            elif self._has_due(received):
                return True
        return False

    def _has_late(self) -> bool:
        """A job that was announced to this runner when its wait had ended. Later ones go to the dispatcher."""
        self._close_socket()
        return self._guard.may_start and self._claims.has_due()

    def _has_due(self, received: Sequence[Wakeup]) -> bool:
        self._announced, self._queried_at = sum(each.job_id is not None for each in received), monotonic()
        if self._announced < len(received):  # jobs may follow without a wake-up
            self._arrivals = Arrivals(self._queried_at)
        if self._claims.has_due():
            return True
        if received:
            self._expect_soon()
        return False

    def _expect_soon(self) -> None:
        """A job was announced but not found: perhaps it is not due yet by this clock, or not visible on this host."""
        self._announced, self._arrivals = 0, Arrivals(monotonic())
