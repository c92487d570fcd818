"""The lease keeper of a runner in a long lane: its parent process, which outlives the dispatcher.

It renews the lease, writes the runner's figures, limits the memory, forwards output and signals, and kills processes
left behind by the runner. A process, because a handler whose C code holds the GIL would block a thread.
"""

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import FrameType

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.fleet.runners import Assignment, Death, FiguresWriter, ObservedRunner
from mayfly.fleet.submitted import must_stop, note_cause, note_death
from mayfly.log import Log
from mayfly.process import exits, fork, timing
from mayfly.process.identity import Process, resident_bytes, start_time
from mayfly.process.status_page import RunnerStatus, StatusPage
from mayfly.queue.rescue import renew
from mayfly.stats.totals import count_unseen

POLL_SECONDS = 0.25  # between two checks of its memory


def run_with_keeper(
    assignment: Assignment, run: Callable[[], int], page: StatusPage, database: Database, log: Log, memory: int | None
) -> int:
    """Fork: the child is the runner, this process its keeper. There must be no open connection and no thread."""
    fork.adopt_orphans()
    keeper = os.getpid()
    reading, writing = os.pipe()

    def run_child() -> int:
        fork.own_group(0)
        fork.die_with_parent(keeper)
        for each in (1, 2):
            os.dup2(writing, each)
        os.close(reading)
        os.close(writing)
        return run()

    pid = fork.fork_into(run_child)
    fork.own_group(pid)
    os.close(writing)
    runner = Process(pid, start_time(pid) or 0)
    return LeaseKeeper(assignment, runner, page, database, log, memory, fork.ChildOutput(reading)).run()


def death_of(status: RunnerStatus, code: int, at: float, now: datetime) -> Death:
    """How a runner ended that did not close its row. `at` is the monotonic time of `now`. Pure."""
    starts = {each.job_id: now - timedelta(seconds=at - each.started) for each in status.running}
    is_timeout = bool(starts) and code == exits.ERROR and 0 < status.hard_deadline <= at
    ending = {exits.SUCCESS: "ok", exits.TIMEOUT: "timeout"}.get(code, "error")
    if code < 0 or starts:
        ending = "timeout" if is_timeout else "crash"
    exit_code, killed_by = (None, -code) if code < 0 else (code, None)
    return Death(ending, exit_code, killed_by, starts, status.done, status.failed)


@dataclass
class LeaseKeeper:
    assignment: Assignment
    runner: Process
    page: StatusPage
    database: Database
    log: Log
    memory_limit: int | None
    output: fork.ChildOutput
    renew_at: float = 0.0
    output_open: bool = True  # the runner has not closed its end of the pipe
    stops: bool = False  # an operator has requested its stop

    def __post_init__(self) -> None:
        self.figures = FiguresWriter(self.database, self.log)
        self.observed = ObservedRunner(self.assignment.worker_id, self.runner.pid, self.page, monotonic())

    def run(self) -> int:
        """Returns the runner's exit code; if a signal killed it, the keeper kills itself with the same signal."""
        for each in fork.STOPS:
            signal.signal(each, self._forward_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, fork.STOPS)
        pidfd = os.pidfd_open(self.runner.pid)
        while not self._wait(pidfd):
            continue
        fork.kill_group(self.runner.pid, signal.SIGKILL)  # descendants; the pid is not reused before waitpid
        _pid, status = os.waitpid(self.runner.pid, 0)
        fork.end_strays()
        self._forward_output()
        code = os.waitstatus_to_exitcode(status)
        if self.assignment.is_submitted:
            self._note_end(code)
        self.database.close()
        if self.output.dropped:
            self.log.write(log_messages.output_dropped(self.assignment.worker_id, self.output.dropped))
        if code < 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
            for each in fork.STOPS:
                signal.signal(each, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return code

    def _wait(self, pidfd: int) -> bool:
        """Wait for the next event; returns whether the runner has exited."""
        if monotonic() >= self.renew_at:
            self.renew_at = monotonic() + timing().long_lease_seconds / timing().lease_renewals
            self._renew()
            self.output.refill()  # the bound on output applies per renewal, not to the whole run
        if monotonic() >= self.figures.due_at:
            self.figures.write([self.observed])
            self._stop_if_requested()
        self._limit_memory()
        seconds = min(self.renew_at, self.figures.due_at) - monotonic()
        if self.memory_limit is not None:
            seconds = min(seconds, POLL_SECONDS)
        descriptors = [pidfd, self.output.descriptor] if self.output_open else [pidfd]
        readable, _, _ = select.select(descriptors, [], [], max(0.0, seconds))
        self._forward_output()
        return pidfd in readable

    def _renew(self) -> None:
        """Not after the runner's hard exit is due: a runner that does not even exit then must lose its lease."""
        if monotonic() >= self.assignment.deadline + timing().hard_exit_seconds:
            return
        lane, worker_id = self.assignment.lane, self.assignment.worker_id
        try:
            now = self.database.clock.now()
            self.database.run(lambda connection: renew(connection, lane, worker_id, self.runner, now))
        except MayflyError:
            self.database.close()  # the next attempt opens a new connection

    def _stop_if_requested(self) -> None:
        """A submitted runner is signalled through its row: the operator may be on another machine."""
        if not self.assignment.is_submitted or self.stops:
            return
        worker_id = self.assignment.worker_id
        with suppress(MayflyError), self.database.bounded(timing().figures_timeout_seconds):
            self.stops = self.database.read(lambda connection: must_stop(connection, worker_id))
        if self.stops:
            self.log.write(log_messages.stop_requested())
            self.runner.send_signal(signal.SIGTERM)

    def _note_end(self, code: int) -> None:
        """If the runner could not close its row: its lease ends, and the next cycle settles its jobs."""
        with suppress(MayflyError):  # if the database is unreachable, its lease expires
            self._note_death(self.page.read(), code)
        self.page.path.unlink(missing_ok=True)

    def _note_death(self, status: RunnerStatus, code: int) -> None:
        worker_id, now = self.assignment.worker_id, self.database.clock.now()
        death = death_of(status, code, monotonic(), now)

        def note(connection: Connection) -> None:
            if note_death(connection, worker_id, death, now):
                if status.too_large:
                    note_cause(connection, worker_id, "its memory grew above WORKER_MEMORY")
                if status.may_be_uncounted:
                    count_unseen(connection, worker_id, status)

        self.database.run(note)

    def _limit_memory(self) -> None:
        if self.memory_limit is None:
            return
        memory = resident_bytes(self.runner.pid)
        if memory > self.memory_limit:
            self.log.write(log_messages.worker_too_large(self.assignment.worker_id, memory, self.memory_limit))
            self.page.note_too_large(memory)
            fork.kill_group(self.runner.pid, signal.SIGKILL)

    def _forward_output(self) -> None:
        lines, self.output_open = self.output.lines()
        for line in lines:
            self.log.write(log_messages.output(self.assignment.worker_id, line))

    def _forward_signal(self, number: int, _frame: FrameType | None) -> None:
        self.runner.send_signal(signal.Signals(number))
