"""The lease keeper of a runner in a long lane: its parent process, which outlives the dispatcher.

It renews the lease, writes the runner's figures, limits the memory, forwards output and signals, and kills processes
left behind by the runner. A process, because a handler whose C code holds the GIL would block a thread.
"""

import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.fleet.runners import Assignment, FiguresWriter, ObservedRunner
from mayfly.log import Log
from mayfly.process import fork, timing
from mayfly.process.identity import Process, resident_bytes, start_time
from mayfly.process.status_page import StatusPage
from mayfly.queue.rescue import renew

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
        self.database.close()
        if self.output.dropped:
            self.log.write(log_messages.output_dropped(self.assignment.worker_id, self.output.dropped))
        code = os.waitstatus_to_exitcode(status)
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
