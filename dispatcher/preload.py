"""What an import has left in its process that forks must not share: threads, descriptors, children."""

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
from dispatcher.spawn import Child, EndedChild, PendingRunner, Spawner
from mayfly import json_text, log_messages
from mayfly.clock import monotonic, pause
from mayfly.db.database import Database
from mayfly.fleet.runners import Assignment
from mayfly.log import Log
from mayfly.process import exits
from mayfly.process.child_output import ChildOutput
from mayfly.process.fork import die_with_parent, fork_into, kill_group, own_group, stop_signals_held
from mayfly.process.identity import resident_bytes
from mayfly.settings import Settings

if TYPE_CHECKING:
    from runner.main import Inherited


Opened = tuple[int, str]  # a descriptor and what it is open to

ENDING_SECONDS = 1.0  # the kernel shows a thread for a moment after its end: our own faulthandler's, mostly
_HARMLESS = {"/dev/null", "/dev/urandom", "/dev/random"}


def open_things() -> frozenset[Opened]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one by which the directory itself was read
            found.add((int(each.name), str(each.readlink())))
    return frozenset(found)


def traces_left(before: frozenset[Opened]) -> str | None:
    """In words, the first thing that has come since; None where a fork is as good as an import."""
    return _thread() or _child() or _descriptor(before)


def _thread() -> str | None:
    """A fork has only the thread that forked: the others are missing in it, and what they held stays held."""
    until = monotonic() + ENDING_SECONDS
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


def _descriptor(before: frozenset[Opened]) -> str | None:
    """Forks share the stream of a socket, the place in a file, the lock of a database."""
    for descriptor, target in sorted(open_things() - before):
        if target not in _HARMLESS and not _is_appended_to(descriptor):
            return f"an open descriptor ({target})"
    return None


def _is_appended_to(descriptor: int) -> bool:
    """A log file: each write goes to its end, whoever writes."""
    is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    return is_file and bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND)


BIRTHS_AT_ONCE = 5  # the first runners work while the next ones are forked
MESSAGE_BYTES = 64 << 10
_PID_BYTES = 8


@dataclass(frozen=True)
class PreloadProcess:
    """Works for a dispatcher that speaks to it through a door of packets; nobody else has a hold of it."""

    dispatcher: int
    settings: Settings
    directory: Path
    database: Database
    door: socket.socket

    def live(self, output: int, deadline: float) -> int:
        """Say whether the import can be shared; then bear runners until the door is closed."""
        from runner.cli import print_to  # like the handlers: never in the dispatcher
        from runner.main import inherit

        log = print_to(output, self.settings)
        os.close(output)
        before = open_things()
        # Whoever hangs in an import is ended from a thread of C, and the log says where.
        faulthandler.dump_traceback_later(max(0.001, deadline - monotonic()), exit=True, file=2)
        inherited = inherit(self.settings, self.database, log)
        faulthandler.cancel_dump_traceback_later()
        self.door.send(json_text.encode({"refused": traces_left(before)}).encode())
        gc.freeze()
        while True:
            request, descriptors, _, _ = socket.recv_fds(
                self.door, MESSAGE_BYTES, BIRTHS_AT_ONCE + 1, socket.MSG_CMSG_CLOEXEC
            )
            if not request:
                return exits.SUCCESS
            assignments = [Assignment.from_text(each) for each in json_text.decode(request.decode())]
            pids = self._bear(assignments, descriptors[0], descriptors[1:], inherited)
            if len(pids) < len(assignments):  # a killed midwife
                return exits.ERROR  # the dispatcher buries us, and with us those who were not told
            self.door.send(json_text.encode({"born": pids}).encode())
            for each in descriptors:
                os.close(each)

    def _bear(
        self, assignments: Sequence[Assignment], go: int, outputs: Sequence[int], inherited: "Inherited"
    ) -> list[int]:
        """Through a midwife: when she is gone, her children are the dispatcher's, which adopts all orphans."""
        reading, writing = os.pipe()

        def deliver() -> int:
            os.close(reading)
            for assignment, output in zip(assignments, outputs, strict=True):
                others = {writing, *outputs} - {output}
                pid = fork_into(lambda: self._live(assignment, go, output, others, inherited))  # noqa: B023 - at once
                try:
                    os.write(writing, pid.to_bytes(_PID_BYTES))
                except BrokenPipeError:  # a killed nurse: whoever was born here is ended with her group
                    return exits.ERROR
            return exits.SUCCESS

        os.waitpid(fork_into(deliver), 0)
        os.close(writing)
        told = os.read(reading, _PID_BYTES * len(assignments))
        os.close(reading)
        return [int.from_bytes(told[at : at + _PID_BYTES]) for at in range(0, len(told), _PID_BYTES)]

    def _live(
        self, assignment: Assignment, go: int, output: int, others: Iterable[int], inherited: "Inherited"
    ) -> int:
        """Nobody works whom the dispatcher does not know yet; if that has died, there is nobody to work for."""
        self.door.close()
        for each in others:
            os.close(each)
        os.read(go, 1)
        os.close(go)
        own_group(0)
        die_with_parent(self.dispatcher)
        from runner.cli import run_assigned

        return run_assigned(assignment, self.settings, self.directory, output, inherited)


@dataclass(frozen=True)
class ForkRequest:
    """Runners that are being forked. They begin when the other end of `go` is closed: when we know them."""

    cradles: Sequence[PendingRunner]
    go: int


@dataclass
class Preloader:
    """Nothing here waits for it: what it cannot take is sent another time, and whatever it does, it can be killed."""

    lane: str
    pid: int
    pidfd: int
    door: socket.socket
    output: ChildOutput
    waiting: deque[PendingRunner] = field(default_factory=deque)  # for the import, or for room in the door
    asked: deque[ForkRequest] = field(default_factory=deque)
    is_ready: bool = False
    killed_for: KilledFor | None = None

    @property
    def unborn(self) -> list[PendingRunner]:
        return [each for request in self.asked for each in request.cradles] + list(self.waiting)

    @property
    def deadline(self) -> float | None:
        """When its first runner would have had to end."""
        return min((each.assignment.deadline for each in self.unborn), default=None)

    def expect(self, cradles: Sequence[PendingRunner]) -> None:
        self.waiting.extend(cradles)
        self.ask()

    def ask(self) -> None:
        """Send what can be sent, in small packets: the first runners work while the next ones are forked."""
        while self.is_ready and self.waiting:
            some = [self.waiting[at] for at in range(min(BIRTHS_AT_ONCE, len(self.waiting)))]
            request = self._send(some)
            if request is None:
                return
            self.asked.append(request)
            for _ in some:
                self.waiting.popleft()

    def _send(self, cradles: Sequence[PendingRunner]) -> ForkRequest | None:
        text = json_text.encode([each.assignment.as_text() for each in cradles])
        waits, go = os.pipe()
        try:
            socket.send_fds(self.door, [text.encode()], [waits, *(each.writing for each in cradles)])
        except OSError:  # full, or its process is gone: in the latter case its pidfd tells
            os.close(go)
            return None
        finally:
            os.close(waits)
        return ForkRequest(cradles, go)

    def answers(self) -> Iterator[dict[str, Any]]:
        """Whatever it has said by now. One that has closed its door is of no more use."""
        try:
            while text := self.door.recv(MESSAGE_BYTES):
                yield json_text.decode(text.decode())
        except BlockingIOError:
            return
        except ConnectionError:
            pass
        self.kill_group(signal.SIGKILL)

    def deliver(self, pids: Sequence[int]) -> list[Child]:
        """The answer to the oldest request. In groups of their own, nothing that ends the nursery ends them."""
        request = self.asked.popleft()
        children = []
        for cradle, pid in zip(request.cradles, pids, strict=True):
            own_group(pid)
            children.append(cradle.bear(pid))
        os.close(request.go)
        return children

    def kill_group(self, number: signal.Signals) -> None:
        """With all whom we do not know yet: they are in its group until they are told to begin."""
        kill_group(self.pid, number)

    def close(self) -> None:
        for request in self.asked:
            os.close(request.go)
        for cradle in self.unborn:
            cradle.close()
        self.door.close()
        self.output.close()
        os.close(self.pidfd)


def open_nursery(spawner: Spawner, lane: str, deadline: float) -> Preloader:
    """Forked like a runner: no connection may be open."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    nurse = PreloadProcess(os.getpid(), spawner.settings, spawner.directory, spawner.database, its)

    def live() -> int:
        spawner.enter_child(nurse.dispatcher)
        ours.close()
        os.close(reading)
        return nurse.live(writing, deadline)

    with stop_signals_held():
        pid = fork_into(live)
    own_group(pid)
    its.close()
    os.close(writing)
    ours.setblocking(False)
    return Preloader(lane, pid, os.pidfd_open(pid), ours, ChildOutput(reading))


class Preloaders:
    def __init__(self, selector: selectors.BaseSelector, log: Log) -> None:
        self._selector = selector
        self._log = log
        self._open: dict[str, Preloader] = {}
        self._refused: list[PendingRunner] = []
        self.unshared: set[str] = set()  # lanes whose import left something that forks must not share

    @property
    def unborn(self) -> int:
        return len(self._refused) + sum(len(each.unborn) for each in self._open.values())

    def expected(self) -> Counter[str]:
        """The same by their lanes."""
        unborn = [each for nursery in self._open.values() for each in nursery.unborn]
        return Counter(cradle.assignment.lane for cradle in [*self._refused, *unborn])

    def get(self, lane: str) -> Preloader | None:
        return self._open.get(lane)

    def add(self, nursery: Preloader) -> None:
        self._open[nursery.lane] = nursery
        for each in (nursery.pidfd, nursery.door.fileno(), nursery.output.descriptor):
            self._selector.register(each, selectors.EVENT_READ, nursery)

    def heed(self, nursery: Preloader) -> list[Child]:
        """The runners that it has born since."""
        born: list[Child] = []
        for answer in nursery.answers():
            if "born" in answer:
                born += nursery.deliver(answer["born"])
            elif answer["refused"] is None:
                nursery.is_ready = True
            else:
                self._log.say(log_messages.preload_disabled(nursery.lane, answer["refused"]))
                self._refuse(nursery)
        nursery.ask()
        return born

    def take_refused(self) -> list[PendingRunner]:
        """Whom the dispatcher has to fork itself."""
        refused, self._refused = self._refused, []
        return refused

    def read_output(self, nursery: Preloader) -> None:
        lines, is_open = nursery.output.lines()
        for line in lines:
            self._log.say(log_messages.import_printed(nursery.lane, line))
        if not is_open and nursery.output.descriptor in self._selector.get_map():
            self._selector.unregister(nursery.output.descriptor)

    def enforce(self, now: float, overdue_seconds: float, memory_limit: int | None) -> None:
        for nursery in self._open.values():
            nursery.ask()
            deadline = nursery.deadline
            if nursery.killed_for is not None or deadline is None:
                continue
            if now > deadline + overdue_seconds:
                self._kill(nursery, KilledFor.TIME)
            elif memory_limit is not None and resident_bytes(nursery.pid) > memory_limit:
                self._kill(nursery, KilledFor.MEMORY)

    def end_all(self) -> None:
        """The dispatcher's guard: whoever is not born by now never will be."""
        for nursery in self._open.values():
            self._kill(nursery, nursery.killed_for or KilledFor.TIME)

    def reap(self, nursery: Preloader) -> list[EndedChild]:
        """It ended by itself, or we killed it: its unborn runners have ended with it."""
        nursery.kill_group(signal.SIGKILL)  # also whoever was forked and is not known: none of them has begun
        unborn, deadline = nursery.unborn, nursery.deadline
        _pid, status, usage = os.wait4(nursery.pid, 0)
        ended = monotonic()
        self._read_last(nursery)
        code = os.waitstatus_to_exitcode(status)
        if deadline is not None and ended >= deadline:
            nursery.killed_for = nursery.killed_for or KilledFor.TIME
        if nursery.lane not in self.unshared:
            self._log.say(log_messages.preload_process_ended(nursery.lane, code, len(unborn)))
        ends = [
            EndedChild(
                assignment=cradle.assignment,
                exit=Exit(
                    code=code or exits.ERROR,  # whatever it is, none of them has done its work
                    seen=cradle.page.read(),
                    ended=ended,
                    peak_memory=usage.ru_maxrss * 1024,
                    killed_for=nursery.killed_for,
                ),
                lived_ms=round((ended - cradle.started) * 1000),
                cpu_ms=0,
            )
            for cradle in unborn
        ]
        self._forget(nursery)
        return ends

    def close_in_child(self) -> None:
        for nursery in self._open.values():
            nursery.close()
        for cradle in self._refused:
            cradle.close()

    def close(self) -> None:
        """They hold nothing that could be lost."""
        for nursery in self._open.values():
            nursery.kill_group(signal.SIGKILL)
            os.waitpid(nursery.pid, 0)
            self._read_last(nursery)

    def _read_last(self, nursery: Preloader) -> None:
        self.read_output(nursery)
        if nursery.output.dropped:
            self._log.say(log_messages.import_output_dropped(nursery.lane, nursery.output.dropped))

    def _refuse(self, nursery: Preloader) -> None:
        self.unshared.add(nursery.lane)
        self._refused.extend(nursery.waiting)
        nursery.waiting.clear()
        nursery.kill_group(signal.SIGKILL)

    def _kill(self, nursery: Preloader, reason: KilledFor) -> None:
        nursery.killed_for = reason
        nursery.kill_group(signal.SIGKILL)

    def _forget(self, nursery: Preloader) -> None:
        del self._open[nursery.lane]
        for each in (nursery.pidfd, nursery.door.fileno(), nursery.output.descriptor):
            if each in self._selector.get_map():
                self._selector.unregister(each)
        nursery.close()
