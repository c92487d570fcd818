"""The keeper of a runner in a long lane: its parent, which stays when the dispatcher has gone.

It renews the lease, bounds the memory, passes on what is printed and signalled, and ends what the runner leaves.
A thread would be starved by a handler whose C code holds the GIL.
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
from mayfly.fleet.runners import Assignment
from mayfly.log import Log
from mayfly.process.fork import STOPS, ChildOutput, adopt_orphans, die_with_parent, fork_into, kill_group, own_group
from mayfly.process.identity import Process, resident_bytes, start_time
from mayfly.process.status_page import StatusPage
from mayfly.process.timing import timing
from mayfly.queue.rescue import renew

POLL_SECONDS = 0.25  # between two looks at its memory


def run_kept(
    assignment: Assignment,
    life: Callable[[], int],
    page: StatusPage,
    database: Database,
    log: Log,
    memory: int | None,
) -> int:
    """The child is the runner, and lives; we see it to its end. No connection may be open, and no thread may run."""
    adopt_orphans()
    keeper = os.getpid()
    reading, writing = os.pipe()

    def live() -> int:
        own_group(0)
        die_with_parent(keeper)
        for each in (1, 2):
            os.dup2(writing, each)
        os.close(reading)
        os.close(writing)
        return life()

    pid = fork_into(live)
    own_group(pid)
    os.close(writing)
    runner = Process(pid, start_time(pid) or 0)
    return LeaseKeeper(assignment, runner, page, database, log, memory, ChildOutput(reading)).see_to_its_end()


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
    prints: bool = True  # its end of the pipe is open

    def see_to_its_end(self) -> int:
        """Its exit code; where a signal has ended it, the same one ends us."""
        for each in STOPS:
            signal.signal(each, self._pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        pidfd = os.pidfd_open(self.runner.pid)
        while not self._watch(pidfd):
            continue
        kill_group(self.runner.pid, signal.SIGKILL)  # what its handlers left; until the wait, its number is its own
        _pid, status = os.waitpid(self.runner.pid, 0)
        from mayfly.process.fork import end_strays  # here: most of its life it needs no psutil

        end_strays()
        self._pass_on_output()
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

    def _watch(self, pidfd: int) -> bool:
        """For a moment: whether it has ended."""
        if monotonic() >= self.renew_at:
            self.renew_at = monotonic() + timing().long_lease_seconds / timing().lease_renewals
            self._renew()
            self.output.refill()  # of hours there is more to tell than of a minute
        self._bound_memory()
        seconds = self.renew_at - monotonic()
        if self.memory_limit is not None:
            seconds = min(seconds, POLL_SECONDS)
        watched = [pidfd, self.output.descriptor] if self.prints else [pidfd]
        readable, _, _ = select.select(watched, [], [], max(0.0, seconds))
        self._pass_on_output()
        return pidfd in readable

    def _renew(self) -> None:
        """No longer than the runner may live: one that cannot be ended even from C must lose its lease."""
        if monotonic() >= self.assignment.deadline + timing().hard_exit_seconds:
            return
        lane, worker_id = self.assignment.lane, self.assignment.worker_id
        try:
            now = self.database.clock.now()
            self.database.run(lambda connection: renew(connection, lane, worker_id, self.runner, now))
        except MayflyError:
            self.database.close()  # the next try has a new connection

    def _bound_memory(self) -> None:
        if self.memory_limit is None:
            return
        memory = resident_bytes(self.runner.pid)
        if memory > self.memory_limit:
            self.log.say(log_messages.worker_too_large(self.assignment.worker_id, memory, self.memory_limit))
            self.page.note_too_large(memory)
            kill_group(self.runner.pid, signal.SIGKILL)

    def _pass_on_output(self) -> None:
        lines, self.prints = self.output.lines()
        for line in lines:
            self.log.say(log_messages.output_line(self.assignment.worker_id, line))

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.runner.send_signal(signal.Signals(number))
