"""The lease keeper of a runner in a long lane: its parent process, which stays when the dispatcher has exited.

It renews the lease, limits the memory, forwards output and signals, and kills what the runner leaves behind.
A thread would be starved by a handler whose C code holds the GIL.
"""

import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.errors import MayflyError
from mayfly.fleet.runners import Assignment
from mayfly.log import Log
from mayfly.process.fork import STOPS, ChildOutput, adopt_orphans, die_with_parent, fork_into, kill_group, own_group
from mayfly.process.identity import Process, resident_bytes, start_time
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from mayfly.queue.rescue import renew

if TYPE_CHECKING:
    from runner.main import Runner

POLL_SECONDS = 0.25  # between two checks of its memory


def install(runner: "Runner") -> None:
    """Claim only in the first minute: a later job of the lane has a full window in a fresh runner."""
    until = monotonic() + runner.settings.worker_timeout
    runner.stop_conditions.append(lambda: monotonic() >= until)


def run_with_keeper(
    assignment: Assignment,
    run: Callable[[], int],
    page: StatusPage,
    database: Database,
    log: Log,
    memory: int | None,
) -> int:
    """Fork: the child is the runner, this process its keeper. No connection may be open, and no thread may run."""
    adopt_orphans()
    keeper = os.getpid()
    reading, writing = os.pipe()

    def run_child() -> int:
        own_group(0)
        die_with_parent(keeper)
        for each in (1, 2):
            os.dup2(writing, each)
        os.close(reading)
        os.close(writing)
        return run()

    pid = fork_into(run_child)
    own_group(pid)
    os.close(writing)
    runner = Process(pid, start_time(pid) or 0)
    return LeaseKeeper(assignment, runner, page, database, log, memory, ChildOutput(reading)).run()


@dataclass
class LeaseKeeper:
    assignment: Assignment
    runner: Process
    page: StatusPage
    database: Database
    log: Log
    memory_limit: int | None
    output: ChildOutput
    renew_at: float = 0.0
    output_open: bool = True  # the runner's end of the pipe

    def run(self) -> int:
        """The runner's exit code; if a signal ended it, the same one ends the keeper."""
        for each in STOPS:
            signal.signal(each, self._forward_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        pidfd = os.pidfd_open(self.runner.pid)
        while not self._wait(pidfd):
            continue
        kill_group(self.runner.pid, signal.SIGKILL)  # what its handlers left; its pid is not reused before waitpid
        _pid, status = os.waitpid(self.runner.pid, 0)
        from mayfly.process.fork import end_strays  # imports psutil, which is needed only at the end

        end_strays()
        self._forward_output()
        self.database.close()
        if self.output.dropped:
            self.log.say(log_messages.output_dropped(self.assignment.worker_id, self.output.dropped))
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
            for each in STOPS:
                signal.signal(each, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return code

    def _wait(self, pidfd: int) -> bool:
        """For a moment: whether the runner has ended."""
        if monotonic() >= self.renew_at:
            self.renew_at = monotonic() + timing().long_lease_seconds / timing().lease_renewals
            self._renew()
            self.output.refill()  # its budget of lines is per minute
        self._limit_memory()
        seconds = self.renew_at - monotonic()
        if self.memory_limit is not None:
            seconds = min(seconds, POLL_SECONDS)
        descriptors = [pidfd, self.output.descriptor] if self.output_open else [pidfd]
        readable, _, _ = select.select(descriptors, [], [], max(0.0, seconds))
        self._forward_output()
        return pidfd in readable

    def _renew(self) -> None:
        """No longer than the runner may run: one that cannot be ended even from C must lose its lease."""
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
            self.log.say(log_messages.worker_too_large(self.assignment.worker_id, memory, self.memory_limit))
            self.page.note_too_large(memory)
            kill_group(self.runner.pid, signal.SIGKILL)

    def _forward_output(self) -> None:
        lines, self.output_open = self.output.lines()
        for line in lines:
            self.log.say(log_messages.output_line(self.assignment.worker_id, line))

    def _forward_signal(self, number: int, _frame: FrameType | None) -> None:
        self.runner.send_signal(signal.Signals(number))
