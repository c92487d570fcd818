"""Import the handlers of a lane once, in a preload process, and fork the lane's runners from it.

`PreloadProcess` runs in the child, `Preloader` is the dispatcher's handle on one such child, `Preloaders` on all.
Preloading is disabled for a lane whose imports leave something that forks must not share: threads, open
descriptors, child processes. Its runners then import the handlers themselves.
"""

import faulthandler
import fcntl
import gc
import os
import selectors
import signal
import socket
import stat
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher.exits import Exit, KilledFor
from dispatcher.spawn import ExitedRunner, PendingRunner, RunnerProcess, Spawner
from mayfly import json_text, log_messages
from mayfly.clock import monotonic, pause
from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.log import Log
from mayfly.process import exits
from mayfly.process.fork import ChildOutput, die_with_parent, fork_into, kill_group, own_group, stop_signals_held
from mayfly.process.identity import resident_bytes
from mayfly.settings import Settings

if TYPE_CHECKING:
    from runner.main import Inherited

FORKS_PER_REQUEST = 5  # the first runners work while the next ones are forked
MESSAGE_BYTES = 64 << 10
THREAD_EXIT_SECONDS = 1.0  # the kernel lists a thread for a moment after its end, usually faulthandler's
_PID_BYTES = 8
_HARMLESS = {"/dev/null", "/dev/urandom", "/dev/random"}

OpenDescriptor = tuple[int, str]  # a descriptor and what it is open to


# --- in the preload process ---


@dataclass(frozen=True)
class PreloadProcess:
    """Imports handlers and forks runners on request of the dispatcher, its only peer."""

    dispatcher: int  # pid
    settings: Settings
    directory: Path
    database: Database
    channel: socket.socket

    def run(self, output: int, deadline: float) -> int:
        """Report whether forks can share the import; then fork runners until the dispatcher closes the channel."""
        from runner.cli import print_to  # here, in the child, like the handlers: never in the dispatcher
        from runner.main import inherit

        log = print_to(output, self.settings)
        os.close(output)
        before = open_descriptors()
        # A thread of C ends an import that hangs, and logs where it hung.
        faulthandler.dump_traceback_later(max(0.001, deadline - monotonic()), exit=True, file=2)
        inherited = inherit(self.settings, self.database, log)
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
            pids = self._fork_runners(assignments, descriptors[0], descriptors[1:], inherited)
            if len(pids) < len(assignments):  # the process in between was killed
                return exits.ERROR  # the dispatcher kills our group, and with it the runners without a known pid
            self.channel.send(json_text.encode({"pids": pids}).encode())
            for each in descriptors:
                os.close(each)

    def _fork_runners(
        self, assignments: Sequence[Assignment], go: int, outputs: Sequence[int], inherited: "Inherited"
    ) -> list[int]:
        """Double fork: the runners are re-parented to the dispatcher, which is a subreaper."""
        read, write = os.pipe()

        def fork_all() -> int:
            os.close(read)
            for assignment, output in zip(assignments, outputs, strict=True):
                others = {write, *outputs} - {output}
                pid = fork_into(lambda: self._run_runner(assignment, go, output, others, inherited))  # noqa: B023
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

    def _run_runner(
        self, assignment: Assignment, go: int, output: int, others: Iterable[int], inherited: "Inherited"
    ) -> int:
        """Wait until the dispatcher has registered this pid, which closes the other end of `go`, then run."""
        self.channel.close()
        for each in others:
            os.close(each)
        os.read(go, 1)
        os.close(go)
        own_group(0)
        die_with_parent(self.dispatcher)
        from runner.cli import run_assigned

        return run_assigned(assignment, self.settings, self.directory, output, inherited)


def open_descriptors() -> frozenset[OpenDescriptor]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the descriptor by which the directory itself was read
            found.add((int(each.name), str(each.readlink())))
    return frozenset(found)


def fork_hazard(before: frozenset[OpenDescriptor]) -> str | None:
    """The first thing that an import has left and that forks must not share; None if they can share all of it."""
    return _thread() or _child() or _descriptor(before)


def _thread() -> str | None:
    """A fork has only the thread that forked: the others are missing in it, and their locks stay locked."""
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
    """Forks would share the stream of a socket, the position in a file, the lock of a database."""
    for descriptor, target in sorted(open_descriptors() - before):
        if target not in _HARMLESS and not _is_appended_to(descriptor):
            return f"an open descriptor ({target})"
    return None


def _is_appended_to(descriptor: int) -> bool:
    """A log file: each write goes to its end, whichever process writes."""
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    return is_file and bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND)


# --- in the dispatcher ---


@dataclass(frozen=True)
class ForkRequest:
    """Runners that are being forked. They begin when the dispatcher, which then knows their pids, closes `go`."""

    runners: Sequence[PendingRunner]
    go: int


@dataclass
class Preloader:
    """The dispatcher never blocks on it: what the channel cannot take now is sent later, and it can be killed."""

    lane: str
    pid: int
    pidfd: int
    channel: socket.socket
    output: ChildOutput
    waiting: deque[PendingRunner] = field(default_factory=deque)  # for the import, or for room in the channel
    requested: deque[ForkRequest] = field(default_factory=deque)
    is_ready: bool = False
    killed_for: KilledFor | None = None

    @property
    def not_started(self) -> list[PendingRunner]:
        return [each for request in self.requested for each in request.runners] + list(self.waiting)

    @property
    def deadline(self) -> float | None:
        """When the first of its runners would have to end."""
        return min((each.assignment.deadline for each in self.not_started), default=None)

    def add(self, runners: Sequence[PendingRunner]) -> None:
        self.waiting.extend(runners)
        self.send_requests()

    def send_requests(self) -> None:
        """In small packets: the first runners work while the next ones are forked."""
        while self.is_ready and self.waiting:
            some = [self.waiting[at] for at in range(min(FORKS_PER_REQUEST, len(self.waiting)))]
            request = self._send(some)
            if request is None:
                return
            self.requested.append(request)
            for _ in some:
                self.waiting.popleft()

    def _send(self, runners: Sequence[PendingRunner]) -> ForkRequest | None:
        text = json_text.encode([each.assignment.as_text() for each in runners])
        wait, go = os.pipe()
        try:
            socket.send_fds(self.channel, [text.encode()], [wait, *(each.output_write for each in runners)])
        except OSError:  # full, or its process is gone, which its pidfd reports
            os.close(go)
            return None
        finally:
            os.close(wait)
        return ForkRequest(runners, go)

    def messages(self) -> Iterator[dict[str, Any]]:
        """All that have arrived. A process that has closed its channel is of no more use and is killed."""
        try:
            while text := self.channel.recv(MESSAGE_BYTES):
                yield json_text.decode(text.decode())
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        self.kill_group(signal.SIGKILL)

    def started(self, pids: Sequence[int]) -> list[RunnerProcess]:
        """The reply to the oldest request. Each runner gets its own group, so it survives the preload process."""
        request = self.requested.popleft()
        runners = []
        for pending, pid in zip(request.runners, pids, strict=True):
            own_group(pid)
            runners.append(pending.started(pid))
        os.close(request.go)
        return runners

    def kill_group(self, number: signal.Signals) -> None:
        """Includes runners whose pid is not known yet: they stay in this group until they may begin."""
        kill_group(self.pid, number)

    def close(self) -> None:
        for request in self.requested:
            os.close(request.go)
        for pending in self.not_started:
            pending.close()
        self.channel.close()
        self.output.close()
        os.close(self.pidfd)


def start_preloader(spawner: Spawner, lane: str, deadline: float) -> Preloader:
    """Forked like a runner: the database connection must be closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    child = PreloadProcess(os.getpid(), spawner.settings, spawner.directory, spawner.database, theirs)

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
    return Preloader(lane, pid, os.pidfd_open(pid), ours, ChildOutput(read))


class Preloaders:
    """The preload processes of this cycle, one per lane."""

    def __init__(self, selector: selectors.BaseSelector, log: Log) -> None:
        self._selector = selector
        self._log = log
        self._by_lane: dict[str, Preloader] = {}
        self._rejected: list[PendingRunner] = []
        self.disabled_lanes: set[str] = set()  # their imports left something that forks must not share

    @property
    def not_started(self) -> int:
        return len(self._rejected) + sum(len(each.not_started) for each in self._by_lane.values())

    def not_started_by_lane(self) -> Counter[str]:
        pending = [each for preloader in self._by_lane.values() for each in preloader.not_started]
        return Counter(each.assignment.lane for each in [*self._rejected, *pending])

    def get(self, lane: str) -> Preloader | None:
        return self._by_lane.get(lane)

    def add(self, preloader: Preloader) -> None:
        self._by_lane[preloader.lane] = preloader
        for each in (preloader.pidfd, preloader.channel.fileno(), preloader.output.descriptor):
            self._selector.register(each, selectors.EVENT_READ, preloader)

    def read_messages(self, preloader: Preloader) -> list[RunnerProcess]:
        """The runners that it has started since the last call."""
        started: list[RunnerProcess] = []
        for message in preloader.messages():
            if "pids" in message:
                started += preloader.started(message["pids"])
            elif message["fork_unsafe"] is None:
                preloader.is_ready = True
            else:
                self._log.say(log_messages.preload_disabled(preloader.lane, message["fork_unsafe"]))
                self._disable(preloader)
        preloader.send_requests()
        return started

    def take_rejected(self) -> list[PendingRunner]:
        """Runners of disabled lanes: the dispatcher has to fork them itself."""
        rejected, self._rejected = self._rejected, []
        return rejected

    def read_output(self, preloader: Preloader) -> None:
        lines, is_open = preloader.output.lines()
        for line in lines:
            self._log.say(log_messages.import_printed(preloader.lane, line))
        if not is_open and preloader.output.descriptor in self._selector.get_map():
            self._selector.unregister(preloader.output.descriptor)

    def enforce(self, now: float, overdue_seconds: float, memory_limit: int | None) -> None:
        for preloader in self._by_lane.values():
            preloader.send_requests()
            deadline = preloader.deadline
            if preloader.killed_for is not None or deadline is None:
                continue
            if now > deadline + overdue_seconds:
                self._kill(preloader, KilledFor.TIME)
            elif memory_limit is not None and resident_bytes(preloader.pid) > memory_limit:
                self._kill(preloader, KilledFor.MEMORY)

    def end_all(self) -> None:
        """The dispatcher's guard: a runner that has not started by now never will."""
        for preloader in self._by_lane.values():
            self._kill(preloader, preloader.killed_for or KilledFor.TIME)

    def wait_for(self, preloader: Preloader) -> list[ExitedRunner]:
        """It exited or was killed; its runners that had not started have ended with it."""
        preloader.kill_group(signal.SIGKILL)  # also forked runners with an unknown pid: none of them has begun
        not_started, deadline = preloader.not_started, preloader.deadline
        _pid, status, usage = os.wait4(preloader.pid, 0)
        ended = monotonic()
        self._read_rest(preloader)
        code = os.waitstatus_to_exitcode(status)
        if deadline is not None and ended >= deadline:
            preloader.killed_for = preloader.killed_for or KilledFor.TIME
        if preloader.lane not in self.disabled_lanes:
            self._log.say(log_messages.preload_process_ended(preloader.lane, code, len(not_started)))
        exited = [
            ExitedRunner(
                assignment=pending.assignment,
                exit=Exit(
                    code=code or exits.ERROR,  # whatever the code, none of these runners has done its work
                    status=pending.page.read(),
                    ended=ended,
                    peak_memory=usage.ru_maxrss * 1024,
                    killed_for=preloader.killed_for,
                ),
                lived_ms=round((ended - pending.started_at) * 1000),
                cpu_ms=0,
            )
            for pending in not_started
        ]
        self._forget(preloader)
        return exited

    def close_in_child(self) -> None:
        for preloader in self._by_lane.values():
            preloader.close()
        for pending in self._rejected:
            pending.close()

    def close(self) -> None:
        """They hold nothing that could be lost."""
        for preloader in self._by_lane.values():
            preloader.kill_group(signal.SIGKILL)
            os.waitpid(preloader.pid, 0)
            self._read_rest(preloader)

    def _read_rest(self, preloader: Preloader) -> None:
        self.read_output(preloader)
        if preloader.output.dropped:
            self._log.say(log_messages.import_output_dropped(preloader.lane, preloader.output.dropped))

    def _disable(self, preloader: Preloader) -> None:
        self.disabled_lanes.add(preloader.lane)
        self._rejected.extend(preloader.waiting)
        preloader.waiting.clear()
        preloader.kill_group(signal.SIGKILL)

    def _kill(self, preloader: Preloader, reason: KilledFor) -> None:
        preloader.killed_for = reason
        preloader.kill_group(signal.SIGKILL)

    def _forget(self, preloader: Preloader) -> None:
        del self._by_lane[preloader.lane]
        for each in (preloader.pidfd, preloader.channel.fileno(), preloader.output.descriptor):
            if each in self._selector.get_map():
                self._selector.unregister(each)
        preloader.close()
