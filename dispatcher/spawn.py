"""Start runners: forked from this process, with its imports, or (SPAWN=exec) in a new interpreter."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

from dispatcher.context import CLOSED
from dispatcher.rescue import Exit, ExitedRunner, KilledFor
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment, ObservedRunner
from mayfly.log_messages import LogMessage
from mayfly.process import fork
from mayfly.process.fork import ChildOutput
from mayfly.process.programs import import_own
from mayfly.process.state_dir import page_path
from mayfly.process.status_page import StatusPage
from mayfly.settings import Settings


@dataclass(kw_only=True)
class ChildProcess:
    """A child of the dispatcher: a runner, or the preload process of a lane."""

    output: ChildOutput
    pid: int = 0  # before it is forked
    pidfd: int = CLOSED  # readable when the child has exited
    killed_for: KilledFor | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.pidfd, self.output.descriptor)

    def kill(self, reason: KilledFor) -> None:
        self.killed_for = reason
        self.kill_group(signal.SIGKILL)

    def kill_group(self, number: signal.Signals) -> None:
        """Signal it and all its descendants."""
        fork.kill_group(self.pid, number)

    def close(self) -> None:
        self.output.close()
        if self.pidfd != CLOSED:
            os.close(self.pidfd)


@dataclass(kw_only=True)
class RunnerProcess(ChildProcess):
    """A runner. Its status page and its output exist before it is forked, so they do even if it dies at once."""

    assignment: Assignment
    waiting_lanes: Sequence[str]  # by the number on its status page, see WaitingLanes.names
    page: StatusPage
    started_at: float
    output_write: int  # the write end of its output, until it is forked
    released: int = 0  # jobs that it has dropped and the dispatcher has released

    @property
    def lane(self) -> str:
        """Where it works now."""
        return self._lane_of(self.page.lane_number)

    def _lane_of(self, number: int) -> str:
        return self.waiting_lanes[number - 1] if number else self.assignment.lane

    @property
    def observed(self) -> ObservedRunner:
        return ObservedRunner(self.assignment.worker_id, self.pid, self.page, self.started_at)

    def note_fork(self, pid: int) -> None:
        self.pid, self.pidfd = pid, os.pidfd_open(pid)
        os.close(self.output_write)
        self.output_write = CLOSED

    def send_signal(self, number: int) -> None:
        """Signal the runner alone: its handler, and processes that the handler started, may finish."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def printed(self, line: str) -> LogMessage:
        return log_messages.output(self.assignment.worker_id, line)

    def dropped(self) -> LogMessage:
        return log_messages.output_dropped(self.assignment.worker_id, self.output.dropped)

    def exited(self, code: int, ended: float, peak_memory: int, cpu_ms: int = 0) -> ExitedRunner:
        status = self.page.read()
        killed_for = KilledFor.MEMORY if status.too_large else self.killed_for  # too_large: set by its lease keeper
        lived_ms = round((ended - self.started_at) * 1000)
        exit_ = Exit(code, status, ended, peak_memory, killed_for, self.output.end)
        last = replace(self.assignment, lane=self._lane_of(status.lane_number))
        return ExitedRunner(last, exit_, lived_ms, cpu_ms, self.assignment.lane)

    def close(self) -> None:
        super().close()
        self.page.close()
        if self.output_write != CLOSED:
            os.close(self.output_write)


@dataclass(frozen=True)
class Spawner:
    settings: Settings
    directory: Path
    database: Database
    waiting_lanes: Sequence[str]
    close_in_child: Sequence[Callable[[], None]]  # closes the lock, the selector and pipes of other children

    def prepare(self, assignment: Assignment) -> RunnerProcess:
        page = StatusPage(page_path(self.directory, assignment.worker_id))
        read, write = os.pipe()
        output = ChildOutput(read)
        return RunnerProcess(
            assignment=assignment,
            waiting_lanes=self.waiting_lanes,
            page=page,
            output=output,
            output_write=write,
            started_at=monotonic(),
        )

    def spawn(self, runner: RunnerProcess) -> None:
        """The database connection must be closed: two processes that share one get each other's replies."""
        parent, output, assignment = os.getpid(), runner.output_write, runner.assignment

        def run() -> int:
            self.enter_child(parent, outlives=assignment.is_long)
            runner.output.close()
            import_own("runner")
            from runner import cli, main  # here, in the child: the dispatcher itself never imports the runner

            return cli.run_assigned(assignment, self.settings, self.directory, output, main.Inherited(self.database))

        with fork.stop_signals_held():
            pid = fork.fork_into(run) if self.settings.spawn == "fork" else self._exec(runner)
        fork.own_group(pid)
        runner.note_fork(pid)

    def enter_child(self, parent: int, outlives: bool = False) -> None:
        """The first steps of a forked child, a runner or a preload process."""
        gc.freeze()  # inherited memory stays shared until it is written, and the garbage collector would write to it
        fork.own_group(0)
        fork.forget_signals()
        self.database.deadline = inf  # the inherited one is the dispatcher's
        if not outlives:
            fork.die_with_parent(parent)
        for close in self.close_in_child:
            close()

    def _exec(self, runner: RunnerProcess) -> int:
        os.set_inheritable(runner.output_write, True)
        safe_path = ["-P"] if sys.flags.safe_path else []  # no imports from the current directory
        arguments = ["-m", "mayfly", "runner", "--assignment", runner.assignment.as_text()]
        handles = ["--output", str(runner.output_write), "--parent", str(os.getpid())]
        command = [sys.executable, *safe_path, *arguments, *handles]
        return os.posix_spawn(sys.executable, command, os.environ, setpgroup=0)
