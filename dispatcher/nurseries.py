"""The nurseries of a cycle, one a lane: heed what they say, bound what they use, and end what they did not bear."""

import os
import selectors
import signal
from collections import Counter

from dispatcher.endings import Exit, KilledFor
from dispatcher.nursery import Nursery
from dispatcher.spawn import Child, Cradle, EndedChild
from mayfly import events, exits
from mayfly.clock import monotonic
from mayfly.fleet.place import resident_bytes
from mayfly.logs import Log


class Nurseries:
    def __init__(self, selector: selectors.BaseSelector, log: Log) -> None:
        self._selector = selector
        self._log = log
        self._open: dict[str, Nursery] = {}
        self._refused: list[Cradle] = []
        self.unshared: set[str] = set()  # lanes whose import left something that forks must not share

    @property
    def unborn(self) -> int:
        return len(self._refused) + sum(len(each.unborn) for each in self._open.values())

    def expected(self) -> Counter[str]:
        """The same by their lanes."""
        unborn = [each for nursery in self._open.values() for each in nursery.unborn]
        return Counter(cradle.assignment.lane for cradle in [*self._refused, *unborn])

    def get(self, lane: str) -> Nursery | None:
        return self._open.get(lane)

    def add(self, nursery: Nursery) -> None:
        self._open[nursery.lane] = nursery
        for each in (nursery.pidfd, nursery.door.fileno(), nursery.output.descriptor):
            self._selector.register(each, selectors.EVENT_READ, nursery)

    def heed(self, nursery: Nursery) -> list[Child]:
        """The runners that it has born since."""
        born: list[Child] = []
        for answer in nursery.answers():
            if "born" in answer:
                born += nursery.deliver(answer["born"])
            elif answer["refused"] is None:
                nursery.is_ready = True
            else:
                self._log.say(events.import_not_shared(nursery.lane, answer["refused"]))
                self._refuse(nursery)
        nursery.ask()
        return born

    def take_refused(self) -> list[Cradle]:
        """Whom the dispatcher has to fork itself."""
        refused, self._refused = self._refused, []
        return refused

    def read_output(self, nursery: Nursery) -> None:
        lines, is_open = nursery.output.lines()
        for line in lines:
            self._log.say(events.import_printed(nursery.lane, line))
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

    def reap(self, nursery: Nursery) -> list[EndedChild]:
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
            self._log.say(events.nursery_ended(nursery.lane, code, len(unborn)))
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

    def _read_last(self, nursery: Nursery) -> None:
        self.read_output(nursery)
        if nursery.output.dropped:
            self._log.say(events.import_output_dropped(nursery.lane, nursery.output.dropped))

    def _refuse(self, nursery: Nursery) -> None:
        self.unshared.add(nursery.lane)
        self._refused.extend(nursery.waiting)
        nursery.waiting.clear()
        nursery.kill_group(signal.SIGKILL)

    def _kill(self, nursery: Nursery, reason: KilledFor) -> None:
        nursery.killed_for = reason
        nursery.kill_group(signal.SIGKILL)

    def _forget(self, nursery: Nursery) -> None:
        del self._open[nursery.lane]
        for each in (nursery.pidfd, nursery.door.fileno(), nursery.output.descriptor):
            if each in self._selector.get_map():
                self._selector.unregister(each)
        nursery.close()
