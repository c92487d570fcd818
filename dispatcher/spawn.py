"""Start runners: forked from this process, which has its imports, or (SPAWN=exec) in a new interpreter."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from dispatcher.exits import Exit, KilledFor
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.process.fork import (
    ChildOutput,
    die_with_parent,
    forget_signals,
    fork_into,
    kill_group,
    own_group,
    stop_signals_held,
)
from mayfly.process.state_dir import page_path
from mayfly.process.status_page import StatusPage
from mayfly.settings import Settings


@dataclass
class RunnerProcess:
    """A running runner of this dispatcher."""

    assignment: Assignment
    pid: int
    pidfd: int
    page: StatusPage
    output: ChildOutput
    started_at: float
    killed_for: KilledFor | None = None

    def kill_group(self, number: signal.Signals) -> None:
        """Signal the runner and all that its handlers started."""
        kill_group(self.pid, number)

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the runner alone: its handler may finish, and so may what the handler started."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def close(self) -> None:
        os.close(self.pidfd)
        self.output.close()
        self.page.close()


@dataclass
class PendingRunner:
    """Page and output of a runner that is not forked yet: however early it dies, there is a page."""

    assignment: Assignment
    page: StatusPage
    output: ChildOutput
    output_write: int  # the runner's end of its output
    started_at: float

    def started(self, pid: int) -> RunnerProcess:
        os.close(self.output_write)
        return RunnerProcess(self.assignment, pid, os.pidfd_open(pid), self.page, self.output, self.started_at)

    def close(self) -> None:
        os.close(self.output_write)
        self.output.close()
        self.page.close()


@dataclass(frozen=True)
class ExitedRunner:
    """A runner that exited or failed to start."""

    assignment: Assignment
    exit: Exit
    lived_ms: int
    cpu_ms: int


@dataclass(frozen=True)
class Spawner:
    settings: Settings
    directory: Path
    database: Database
    close_in_child: Sequence[Callable[[], None]]  # the lock, the selector, pipes of others: nothing crosses the fork

    def prepare(self, assignment: Assignment) -> PendingRunner:
        page = StatusPage(page_path(self.directory, assignment.worker_id))
        read, write = os.pipe()
        return PendingRunner(assignment, page, ChildOutput(read), write, monotonic())

    def spawn(self, pending: PendingRunner) -> RunnerProcess:
        """The database connection must be closed: one that two processes share gives wrong answers silently."""
        start = self._fork if self.settings.spawn == "fork" else self._exec
        with stop_signals_held():
            pid = start(pending)
        return pending.started(pid)

    def enter_child(self, parent: int, outlives: bool = False) -> None:
        """The first steps of a forked child, be it a runner or a preload process."""
        gc.freeze()  # inherited memory stays shared as long as nothing, the garbage collector included, writes to it
        own_group(0)
        forget_signals()
        self.database.deadline = inf  # it was the dispatcher's
        if not outlives:
            die_with_parent(parent)
        for close in self.close_in_child:
            close()

    def _fork(self, pending: PendingRunner) -> int:
        parent = os.getpid()
        pid = fork_into(lambda: self._run_child(pending, parent))
        own_group(pid)
        return pid

    def _run_child(self, pending: PendingRunner, parent: int) -> int:
        self.enter_child(parent, outlives=pending.assignment.is_long)
        pending.output.close()
        from runner.cli import run_assigned  # here, in the child: the dispatcher never imports what runs handlers
        from runner.main import Inherited

        inherited = Inherited(self.database)
        return run_assigned(pending.assignment, self.settings, self.directory, pending.output_write, inherited)

    def _exec(self, pending: PendingRunner) -> int:
        os.set_inheritable(pending.output_write, True)
        safe_path = ["-P"] if sys.flags.safe_path else []  # as cron starts us: no imports from the current directory
        arguments = ["-m", "runner", "--assignment", pending.assignment.as_text()]
        handles = ["--output", str(pending.output_write), "--parent", str(os.getpid())]
        command = [sys.executable, *safe_path, *arguments, *handles]
        return os.posix_spawn(sys.executable, command, os.environ, setpgroup=0)
