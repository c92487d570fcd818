"""Inside a nursery: import the handlers of a lane once, then fork a runner for each assignment that comes in."""

import faulthandler
import gc
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.traces import open_things, traces_left
from mayfly import exits, jsontext
from mayfly.clock import monotonic
from mayfly.engine import Database
from mayfly.fleet.runners import Assignment
from mayfly.forking import fork_into, own_group
from mayfly.prctl import die_with_parent
from mayfly.settings import Settings

if TYPE_CHECKING:
    from runner.inherited import Inherited

BIRTHS_AT_ONCE = 5  # the first runners work while the next ones are forked
MESSAGE_BYTES = 64 << 10
_PID_BYTES = 8


@dataclass(frozen=True)
class Nurse:
    """Works for a dispatcher that speaks to it through a door of packets; nobody else has a hold of it."""

    dispatcher: int
    settings: Settings
    directory: Path
    database: Database
    door: socket.socket

    def live(self, output: int, deadline: float) -> int:
        """Say whether the import can be shared; then bear runners until the door is closed."""
        from runner.cli import print_to  # like the handlers: never in the dispatcher
        from runner.inherited import inherit

        log = print_to(output, self.settings)
        os.close(output)
        before = open_things()
        # Whoever hangs in an import is ended from a thread of C, and the log says where.
        faulthandler.dump_traceback_later(max(0.001, deadline - monotonic()), exit=True, file=2)
        inherited = inherit(self.settings, self.database, log)
        faulthandler.cancel_dump_traceback_later()
        self.door.send(jsontext.encode({"refused": traces_left(before)}).encode())
        gc.freeze()
        while True:
            request, descriptors, _, _ = socket.recv_fds(
                self.door, MESSAGE_BYTES, BIRTHS_AT_ONCE + 1, socket.MSG_CMSG_CLOEXEC
            )
            if not request:
                return exits.SUCCESS
            assignments = [Assignment.from_text(each) for each in jsontext.decode(request.decode())]
            pids = self._bear(assignments, descriptors[0], descriptors[1:], inherited)
            if len(pids) < len(assignments):  # a killed midwife
                return exits.ERROR  # the dispatcher buries us, and with us those who were not told
            self.door.send(jsontext.encode({"born": pids}).encode())
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
