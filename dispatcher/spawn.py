"""Start runners: forked from this warm process, or (SPAWN=exec) in an interpreter of their own."""

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
from mayfly.process.child_output import ChildOutput
from mayfly.process.fork import die_with_parent, forget_signals, fork_into, kill_group, own_group, stop_signals_held
from mayfly.process.state_dir import page_path
from mayfly.process.status_page import StatusPage
from mayfly.settings import Settings


@dataclass
class Child:
    """A runner of ours, as long as it lives."""

    assignment: Assignment
    pid: int
    pidfd: int
    page: StatusPage
    output: ChildOutput
    started: float
    killed_for: KilledFor | None = None

    def kill_group(self, number: signal.Signals) -> None:
        """The runner and whatever its handlers started."""
        kill_group(self.pid, number)

    def close(self) -> None:
        os.close(self.pidfd)
        self.output.close()
        self.page.close()


@dataclass
class PendingRunner:
    """What is made for a runner before there is one: however early it dies, there is a page."""

    assignment: Assignment
    page: StatusPage
    output: ChildOutput
    writing: int  # the runner's end of its output
    started: float

    def bear(self, pid: int) -> Child:
        os.close(self.writing)
        return Child(self.assignment, pid, os.pidfd_open(pid), self.page, self.output, self.started)

    def close(self) -> None:
        os.close(self.writing)
        self.output.close()
        self.page.close()


@dataclass(frozen=True)
class EndedChild:
    """A runner that is gone, or that was to be and never was."""

    assignment: Assignment
    exit: Exit
    lived_ms: int
    cpu_ms: int


@dataclass(frozen=True)
class Spawner:
    settings: Settings
    directory: Path
    database: Database
    close_in_child: Sequence[Callable[[], None]]  # the lock, the selector, others' pipes: none crosses the fork

    def prepare(self, assignment: Assignment) -> PendingRunner:
        page = StatusPage(page_path(self.directory, assignment.worker_id))
        reading, writing = os.pipe()
        return PendingRunner(assignment, page, ChildOutput(reading), writing, monotonic())

    def spawn(self, cradle: PendingRunner) -> Child:
        """No connection may be open: a shared one gives wrong answers without an error."""
        start = self._fork if self.settings.spawn == "fork" else self._exec
        with stop_signals_held():
            pid = start(cradle)
        return cradle.bear(pid)

    def enter_child(self, parent: int, outlives: bool = False) -> None:
        """What a forked child does first, be it a runner or a nursery."""
        gc.freeze()  # what is inherited is shared memory for as long as nobody, the collector included, writes to it
        own_group(0)
        forget_signals()
        self.database.deadline = inf  # the dispatcher's own
        if not outlives:
            die_with_parent(parent)
        for close in self.close_in_child:
            close()

    def _fork(self, cradle: PendingRunner) -> int:
        parent = os.getpid()
        pid = fork_into(lambda: self._live(cradle, parent))
        own_group(pid)
        return pid

    def _live(self, cradle: PendingRunner, parent: int) -> int:
        self.enter_child(parent, outlives=cradle.assignment.is_long)
        cradle.output.close()
        from runner.cli import run_assigned  # the dispatcher itself never loads what runs handlers
        from runner.main import Inherited

        inherited = Inherited(self.database)
        return run_assigned(cradle.assignment, self.settings, self.directory, cradle.writing, inherited)

    def _exec(self, cradle: PendingRunner) -> int:
        os.set_inheritable(cradle.writing, True)
        safe_path = ["-P"] if sys.flags.safe_path else []  # as cron starts us: nothing is imported from its directory
        arguments = ["-m", "runner", "--assignment", cradle.assignment.as_text()]
        whereabouts = ["--output", str(cradle.writing), "--parent", str(os.getpid())]
        command = [sys.executable, *safe_path, *arguments, *whereabouts]
        return os.posix_spawn(sys.executable, command, os.environ, setpgroup=0)
