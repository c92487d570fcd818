"""A lane's nursery as the dispatcher knows it: whom it has been asked to bear, and what it has answered."""

import os
import signal
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatcher.endings import KilledFor
from dispatcher.nurse import BIRTHS_AT_ONCE, MESSAGE_BYTES, Nurse
from dispatcher.spawn import Child, Cradle, Spawner
from mayfly import jsontext
from mayfly.forking import fork_into, kill_group, own_group, stop_signals_held
from mayfly.output import Output


@dataclass(frozen=True)
class Request:
    """Runners that are being forked. They begin when the other end of `go` is closed: when we know them."""

    cradles: Sequence[Cradle]
    go: int


@dataclass
class Nursery:
    """Nothing here waits for it: what it cannot take is sent another time, and whatever it does, it can be killed."""

    lane: str
    pid: int
    pidfd: int
    door: socket.socket
    output: Output
    waiting: deque[Cradle] = field(default_factory=deque)  # for the import, or for room in the door
    asked: deque[Request] = field(default_factory=deque)
    is_ready: bool = False
    killed_for: KilledFor | None = None

    @property
    def unborn(self) -> list[Cradle]:
        return [each for request in self.asked for each in request.cradles] + list(self.waiting)

    @property
    def deadline(self) -> float | None:
        """When its first runner would have had to end."""
        return min((each.assignment.deadline for each in self.unborn), default=None)

    def expect(self, cradles: Sequence[Cradle]) -> None:
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

    def _send(self, cradles: Sequence[Cradle]) -> Request | None:
        text = jsontext.encode([each.assignment.as_text() for each in cradles])
        waits, go = os.pipe()
        try:
            socket.send_fds(self.door, [text.encode()], [waits, *(each.writing for each in cradles)])
        except OSError:  # full, or its process is gone: in the latter case its pidfd tells
            os.close(go)
            return None
        finally:
            os.close(waits)
        return Request(cradles, go)

    def answers(self) -> Iterator[dict[str, Any]]:
        """Whatever it has said by now. One that has closed its door is of no more use."""
        try:
            while text := self.door.recv(MESSAGE_BYTES):
                yield jsontext.decode(text.decode())
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


def open_nursery(spawner: Spawner, lane: str, deadline: float) -> Nursery:
    """Forked like a runner: no connection may be open."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    nurse = Nurse(os.getpid(), spawner.settings, spawner.directory, spawner.database, its)

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
    return Nursery(lane, pid, os.pidfd_open(pid), ours, Output(reading))
