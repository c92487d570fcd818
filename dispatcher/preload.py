"""Import the handlers of a lane once, in a preload process, and fork the lane's runners from it.

`PreloadProcess` runs in the child, `Preloader` is the dispatcher's handle on it.
Preloading is disabled for a lane whose imports leave threads, open descriptors or child processes, which forks must
not share. Its runners then import the handlers themselves.
"""

import faulthandler
import fcntl
import gc
import os
import signal
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from dispatcher.rescue import ExitedRunner, KilledFor
from dispatcher.spawn import ChildProcess, RunnerProcess, Spawner
from mayfly import json_text, log_messages
from mayfly.clock import monotonic, pause
from mayfly.fleet.runners import Assignment
from mayfly.log_messages import LogMessage
from mayfly.process import exits
from mayfly.process.fork import ChildOutput, die_with_parent, fork_into, own_group, stop_signals_held
from mayfly.process.programs import import_own

FORKS_PER_REQUEST = 5  # the first runners work while the next are forked
MESSAGE_BYTES = 64 << 10
THREAD_EXIT_SECONDS = 1.0  # the kernel lists a thread, usually faulthandler's, for a moment after its end
_PID_BYTES = 8
_HARMLESS = {"/dev/null", "/dev/urandom", "/dev/random"}

OpenDescriptor = tuple[int, str]  # a descriptor and what it is open to


# --- in the preload process ---


@dataclass(frozen=True)
class PreloadProcess:
    """Imports handlers and forks runners on request of the dispatcher, its only peer."""

    dispatcher: int  # pid
    spawner: Spawner
    channel: socket.socket

    def run(self, output: int, deadline: float) -> int:
        """Report whether forks can share the import; then fork runners until the dispatcher closes the channel."""
        import_own("runner")
        from runner import cli, main  # here, in the child, like the handlers: never in the dispatcher

        settings, directory = self.spawner.settings, self.spawner.directory
        log = cli.print_to(output, settings)
        os.close(output)
        before = open_descriptors()
        # A C thread ends an import that hangs, and logs where it hangs.
        faulthandler.dump_traceback_later(max(0.001, deadline - monotonic()), exit=True, file=2)
        inherited = main.inherit(settings, self.spawner.database, log)
        faulthandler.cancel_dump_traceback_later()
        self.channel.send(json_text.encode({"fork_unsafe": fork_hazard(before)}).encode())
        gc.freeze()
        while True:
            request, descriptors, _, _ = socket.recv_fds(
                self.channel, MESSAGE_BYTES, FORKS_PER_REQUEST + 1, socket.MSG_CMSG_CLOEXEC
            )
            if not request:
                return exits.SUCCESS
            assignments = [Assignment.from_text(each) for each in json_text.decode(request.decode())]
            pids = self._fork_runners(
                assignments,
                descriptors[0],
                descriptors[1:],
                lambda assignment, out: cli.run_assigned(assignment, settings, directory, out, inherited),
            )
            if len(pids) < len(assignments):  # the intermediate process was killed
                return exits.ERROR  # the dispatcher kills our group, including runners whose pid is unknown
            self.channel.send(json_text.encode({"pids": pids}).encode())
            for each in descriptors:
                os.close(each)

    def _fork_runners(
        self,
        assignments: Sequence[Assignment],
        go: int,
        outputs: Sequence[int],
        run: Callable[[Assignment, int], int],
    ) -> list[int]:
        """Double fork: the runners are re-parented to the dispatcher, which is a subreaper."""
        read, write = os.pipe()

        def run_runner(assignment: Assignment, output: int) -> int:
            self.channel.close()
            for each in {write, *outputs} - {output}:
                os.close(each)
            os.read(go, 1)  # until the dispatcher has registered this pid, and closes the other end
            os.close(go)
            own_group(0)
            die_with_parent(self.dispatcher)
            return run(assignment, output)

        def fork_all() -> int:
            os.close(read)
            for assigned in zip(assignments, outputs, strict=True):
                pid = fork_into(partial(run_runner, *assigned))
                try:
                    os.write(write, pid.to_bytes(_PID_BYTES))
                except BrokenPipeError:  # the preload process was killed: the new runner ends with its group
                    return exits.ERROR
            return exits.SUCCESS

        os.waitpid(fork_into(fork_all), 0)
        os.close(write)
        packed = os.read(read, _PID_BYTES * len(assignments))
        os.close(read)
        return [int.from_bytes(packed[at : at + _PID_BYTES]) for at in range(0, len(packed), _PID_BYTES)]


def open_descriptors() -> frozenset[OpenDescriptor]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor of this directory listing itself
            found.add((int(each.name), str(each.readlink())))
    return frozenset(found)


def fork_hazard(before: frozenset[OpenDescriptor]) -> str | None:
    """The first thing left by an import that forks must not share; None if there is none."""
    return _thread() or _child() or _descriptor(before)


def _thread() -> str | None:
    """A forked child has only the thread that forked: the others are missing, and their locks stay locked."""
    until = monotonic() + THREAD_EXIT_SECONDS
    while len(list(Path("/proc/self/task").iterdir())) > 1:
        names = [each.name for each in threading.enumerate() if each is not threading.current_thread()]
        if names or monotonic() > until:
            return f"a thread ({', '.join(names) or 'not of Python'})"
        pause(0.001)
    return None


def _child() -> str | None:
    """Only the process that started it can wait for it, and its pipes would have many readers."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return "a child process"


def _descriptor(before: frozenset[OpenDescriptor]) -> str | None:
    """Forks would share the stream of a socket, the position in a file, the lock of a database. A file opened for
    appending, such as a log, can be shared."""
    for descriptor, target in sorted(open_descriptors() - before):
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        is_appended_to = is_file and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        if target not in _HARMLESS and not is_appended_to:
            return f"an open descriptor ({target})"
    return None


# --- in the dispatcher ---


class ForkRequest(NamedTuple):
    """Runners that are being forked. They start when the dispatcher has registered their pids and closes `go`."""

    runners: Sequence[RunnerProcess]
    go: int


@dataclass(kw_only=True)
class Preloader(ChildProcess):
    """The dispatcher never blocks on it: if the channel is full, requests are sent later; and it can be killed.

    Until they start, the runners that it has forked are in its process group: killing the group kills them, too.
    """

    lane: str
    channel: socket.socket
    waiting: deque[RunnerProcess] = field(default_factory=deque)  # for the import, or for room in the channel
    requested: deque[ForkRequest] = field(default_factory=deque)
    is_ready: bool = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (*super().descriptors, self.channel.fileno())

    @property
    def not_started(self) -> list[RunnerProcess]:
        return [each for request in self.requested for each in request.runners] + list(self.waiting)

    @property
    def deadline(self) -> float:
        """When the first of its runners must end."""
        return min((each.assignment.deadline for each in self.not_started), default=inf)

    def send_requests(self) -> None:
        """In small packets: the first runners work while the next are forked."""
        while self.is_ready and self.waiting:
            some = list(islice(self.waiting, FORKS_PER_REQUEST))
            text = json_text.encode([each.assignment.as_text() for each in some])
            wait, go = os.pipe()
            try:
                socket.send_fds(self.channel, [text.encode()], [wait, *(each.output_write for each in some)])
            except OSError:  # full, or its process is gone, which its pidfd reports
                os.close(go)
                return
            finally:
                os.close(wait)
            self.requested.append(ForkRequest(some, go))
            for _ in some:
                self.waiting.popleft()

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages that have arrived. A process that has closed its channel is useless and is killed."""
        try:
            while text := self.channel.recv(MESSAGE_BYTES):
                yield json_text.decode(text.decode())
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        self.kill_group(signal.SIGKILL)

    def note_forks(self, pids: Sequence[int]) -> ForkRequest:
        """Handle the reply to the oldest request. Each runner gets its own group and survives the preload process."""
        request = self.requested.popleft()
        for runner, pid in zip(request.runners, pids, strict=True):
            own_group(pid)
            runner.note_fork(pid)
        return request

    def exited_runners(self, code: int, ended: float, peak_memory: int) -> list[ExitedRunner]:
        """Runners that had not started end with it. They count as failed, even if its exit code is 0."""
        if ended >= self.deadline:
            self.killed_for = self.killed_for or KilledFor.TIME
        for runner in self.not_started:
            runner.killed_for = self.killed_for
        return [runner.exited(code or exits.ERROR, ended, peak_memory) for runner in self.not_started]

    def printed(self, line: str) -> LogMessage:
        return log_messages.import_printed(self.lane, line)

    def dropped(self) -> LogMessage:
        return log_messages.import_output_dropped(self.lane, self.output.dropped)

    def close(self) -> None:
        for request in self.requested:
            os.close(request.go)
        for runner in self.not_started:
            runner.close()
        self.channel.close()
        super().close()


def start_preloader(spawner: Spawner, lane: str, deadline: float) -> Preloader:
    """Forked like a runner: the database connection must be closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    child = PreloadProcess(os.getpid(), spawner, theirs)

    def run() -> int:
        spawner.enter_child(child.dispatcher)
        ours.close()
        os.close(read)
        return child.run(write, deadline)

    with stop_signals_held():
        pid = fork_into(run)
    own_group(pid)
    theirs.close()
    os.close(write)
    ours.setblocking(False)
    return Preloader(lane=lane, pid=pid, pidfd=os.pidfd_open(pid), channel=ours, output=ChildOutput(read))
