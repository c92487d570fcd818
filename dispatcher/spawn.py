"""Start runners: forked from this warm process, or (SPAWN=exec) in an interpreter of their own."""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dispatcher.endings import KilledFor
from dispatcher.output import Output
from mayfly import exits
from mayfly.clock import monotonic
from mayfly.fleet.runners import Assignment
from mayfly.page import Page
from mayfly.prctl import die_with_parent
from mayfly.settings import Settings
from mayfly.statedir import page_path


@dataclass
class Child:
    """A runner of ours, as long as it lives."""

    assignment: Assignment
    pid: int
    pidfd: int
    page: Page
    output: Output
    started: float
    killed_for: KilledFor | None = None

    def kill_group(self, number: signal.Signals) -> None:
        """The runner and whatever its handlers started."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return

    def close(self) -> None:
        os.close(self.pidfd)
        self.output.close()
        self.page.close()


@dataclass(frozen=True)
class Spawner:
    settings: Settings
    directory: Path
    close_in_child: Sequence[Callable[[], None]]  # the lock, the selector, others' pipes: none crosses the fork

    def spawn(self, assignment: Assignment) -> Child:
        """No connection may be open: a shared one gives wrong answers without an error."""
        path = page_path(self.directory, assignment.worker_id)
        page = Page(path)  # before the runner: however early it dies, there is a page
        reading, writing = os.pipe()
        start = self._fork if self.settings.spawn == "fork" else self._exec
        with _stop_signals_held():
            pid = start(assignment, reading, writing)
        os.close(writing)
        return Child(assignment, pid, os.pidfd_open(pid), page, Output(reading), monotonic())

    def _fork(self, assignment: Assignment, reading: int, writing: int) -> int:
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._become_runner(assignment, parent, reading, writing)
        _own_group(pid)
        return pid

    def _become_runner(self, assignment: Assignment, parent: int, reading: int, writing: int) -> NoReturn:
        """In the child: never returns into the dispatcher's stack."""
        code = exits.ERROR
        try:
            _own_group(0)
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_DFL)
            die_with_parent(parent)
            os.close(reading)
            for close in self.close_in_child:
                close()
            from runner.cli import run_assigned  # the dispatcher itself never loads what runs handlers

            code = run_assigned(assignment, self.settings, self.directory, writing)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:  # noqa: BLE001 - the last frame of this process: say why, then end
            traceback.print_exc()
            code = exits.ERROR
        finally:
            os._exit(code)

    def _exec(self, assignment: Assignment, _reading: int, writing: int) -> int:
        os.set_inheritable(writing, True)
        safe_path = ["-P"] if sys.flags.safe_path else []  # as cron starts us: nothing is imported from its directory
        arguments = ["-m", "runner", "--assignment", assignment.as_text()]
        whereabouts = ["--output", str(writing), "--parent", str(os.getpid())]
        command = [sys.executable, *safe_path, *arguments, *whereabouts]
        return os.posix_spawn(sys.executable, command, os.environ, setpgroup=0)


@contextmanager
def _stop_signals_held() -> Iterator[None]:
    """The runner inherits this: told to stop before it can listen, it neither dies of that nor misses it."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _own_group(pid: int) -> None:
    """Set by both sides: whoever needs it first finds it done."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return
