"""Watch the runners of this cycle: their ends, their memory, their time, what they print, and our own signals."""

import os
import selectors
import signal
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from types import FrameType

from dispatcher.context import CycleContext
from dispatcher.exits import Exit, KilledFor
from dispatcher.preload import Preloader, Preloaders, open_nursery
from dispatcher.spawn import Child, EndedChild, Spawner
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.runners import Assignment
from mayfly.log import Log
from mayfly.process.fork import HANDOVER, end_strays
from mayfly.process.identity import resident_bytes
from mayfly.process.timing import timing

TICK_SECONDS = 0.25


class Supervisor:
    def __init__(self, deadline: float, timeout_seconds: float, memory_limit: int | None, log: Log) -> None:
        self._deadline = deadline
        self._timeout_seconds = timeout_seconds
        self._memory_limit = memory_limit
        self._log = log
        self._children: dict[int, Child] = {}
        self._selector = selectors.DefaultSelector()
        self.nurseries = Preloaders(self._selector, log)
        self._wake_read, self._wake_write = os.pipe()
        self._terminated_at: float | None = None
        self.stopped_by: str | None = None
        self.guard_fired = False
        self._successor_waits = False  # the next dispatcher asks for the host lock
        self._has_retired = False
        self._relieved_at: float | None = None  # when runners of a dispatcher that has handed over stop claiming
        self.left: list[Child] = []  # runners of long lanes, when nobody else is waited for any more

    def install(self) -> None:
        """A signal wakes the wait below; nothing is done inside the handler."""
        for each in (self._wake_read, self._wake_write):
            os.set_blocking(each, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(HANDOVER, self._on_handover)

    @property
    def alive(self) -> int:
        """Runners, born or not."""
        return len(self._children) + self.nurseries.unborn

    @property
    def deadline(self) -> float:
        return self._deadline

    @property
    def may_spawn(self) -> bool:
        return self.stopped_by is None and not self.guard_fired and not self._has_retired

    @property
    def must_hand_over(self) -> bool:
        return self._successor_waits and not self._has_retired

    def idle(self) -> Counter[str]:
        """Of each lane, the runners of ours that wait for work, or are about to."""
        waiting = (child.assignment.lane for child in self._children.values() if not child.page.read().running)
        return Counter(waiting) + self.nurseries.expected()

    def extend(self, deadline: float) -> None:
        """Who was started later has a later end; a runner's own is on its page."""
        self._deadline = max(self._deadline, deadline)

    def retire(self) -> None:
        """Nobody is started any more. Our runners go on until the next dispatcher's have begun, and then leave."""
        self._has_retired = True
        self._relieved_at = monotonic() + timing().handover_seconds
        self._tell_all(HANDOVER, only_long=True)  # which are left at once

    def add(self, child: Child) -> None:
        self._children[child.pid] = child
        self._selector.register(child.pidfd, selectors.EVENT_READ, child)
        self._selector.register(child.output.descriptor, selectors.EVENT_READ, child)
        if self.stopped_by is not None:  # the signal came between the decision and the fork
            _tell(child, HANDOVER if child.assignment.is_long else signal.SIGTERM)
        elif self._has_retired:  # the next dispatcher has planned without it
            _tell(child, HANDOVER)

    def wait(self, seconds: float = TICK_SECONDS) -> list[EndedChild]:
        """Until something happens, a quarter of a second at most; the runners that have ended."""
        gone: dict[int, Child | Preloader] = {}
        for key, _ in self._selector.select(min(seconds, TICK_SECONDS)):
            one = key.data
            if one is None:
                _drain(self._wake_read)
            elif key.fd == one.pidfd:
                gone[one.pid] = one
            elif isinstance(one, Preloader):
                self._attend(one)
            else:
                self._read_output(one)
        self._enforce(gone)
        return [each for pid in sorted(gone) for each in self._bury(gone[pid])]

    def close_in_child(self) -> None:
        """Nothing of ours may live on in a forked runner."""
        self._selector.close()
        self.nurseries.close_in_child()
        for child in self._children.values():
            child.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self.nurseries.close()
        end_strays(spare={child.pid for child in self.left})
        self.close_in_child()

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        if self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
            for child in self._children.values():
                _tell(child, HANDOVER if child.assignment.is_long else signal.SIGTERM)
            self._log.say(log_messages.stopping(self.stopped_by, self.alive))

    def _on_handover(self, _number: int, _frame: FrameType | None) -> None:
        self._successor_waits = True

    def _enforce(self, gone: Collection[int]) -> None:
        now = monotonic()
        if self._relieved_at is not None and now >= self._relieved_at:
            self._relieved_at = None
            self._tell_all(HANDOVER)
        if now >= self._deadline or not self.may_spawn:
            self._leave_long(gone)
        if now >= self._deadline and self.alive:
            self._end_all(now, gone)
        self.nurseries.enforce(now, timing().overdue_seconds, self._memory_limit)
        for pid, child in self._children.items():
            if child.killed_for is None and pid not in gone:  # one that has exited by itself was not killed
                self._enforce_on(child, now)

    def _tell_all(self, number: signal.Signals, only_long: bool = False) -> None:
        for child in self._children.values():
            if child.assignment.is_long or not only_long:
                _tell(child, number)

    def _leave_long(self, gone: Collection[int]) -> None:
        """They go on without us; the following cycles count them, and end them when their time is over."""
        long = [child for pid, child in self._children.items() if child.assignment.is_long and pid not in gone]
        for child in long:
            self._log.say(log_messages.left_running(child.assignment.worker_id, child.assignment.lane))
            self._forget(child)
            child.close()
            self.left.append(child)

    def _end_all(self, now: float, gone: Collection[int]) -> None:
        """The dispatcher's own guard: TERM, and a second later KILL, of every process group still alive."""
        if self._terminated_at is None:
            self.guard_fired = True
            self._terminated_at = now
            self._log.say(log_messages.dispatch_timeout(self._timeout_seconds, self.alive - len(gone)))
            number = signal.SIGTERM
        elif now >= self._terminated_at + timing().kill_seconds:
            number = signal.SIGKILL
        else:
            return
        self.nurseries.end_all()
        for child in [child for pid, child in self._children.items() if pid not in gone]:
            child.killed_for = child.killed_for or KilledFor.TIME
            child.kill_group(number)

    def _enforce_on(self, child: Child, now: float) -> None:
        worker_id = child.assignment.worker_id
        hard_deadline = child.page.hard_deadline
        if hard_deadline and now > hard_deadline + timing().overdue_seconds:
            self._log.say(log_messages.worker_overdue(worker_id))
            self._kill(child, KilledFor.TIME)
        if self._memory_limit is not None:
            memory = resident_bytes(child.pid)
            if memory > self._memory_limit:
                self._log.say(log_messages.worker_too_large(worker_id, memory, self._memory_limit))
                self._kill(child, KilledFor.MEMORY)

    def _kill(self, child: Child, reason: KilledFor) -> None:
        child.killed_for = reason
        child.kill_group(signal.SIGKILL)

    def _attend(self, nursery: Preloader) -> None:
        self.nurseries.read_output(nursery)
        for child in self.nurseries.heed(nursery):
            self.add(child)

    def _bury(self, one: Child | Preloader) -> list[EndedChild]:
        if isinstance(one, Preloader):
            self._attend(one)  # its last words may tell of runners
            return self.nurseries.reap(one)
        return [self._reap(one)]

    def _reap(self, child: Child) -> EndedChild:
        child.kill_group(signal.SIGKILL)  # what its handlers left running; until the wait, its number is its own
        _pid, status, usage = os.wait4(child.pid, 0)
        ended = monotonic()
        self._read_output(child)
        if child.output.dropped:
            self._log.say(log_messages.output_dropped(child.assignment.worker_id, child.output.dropped))
        self._forget(child)
        seen = child.page.read()
        exit_ = Exit(
            code=os.waitstatus_to_exitcode(status),
            seen=seen,
            ended=ended,
            peak_memory=usage.ru_maxrss * 1024,
            killed_for=KilledFor.MEMORY if seen.too_large else child.killed_for,  # the former by its keeper
        )
        child.close()
        cpu_ms = round((usage.ru_utime + usage.ru_stime) * 1000)
        return EndedChild(child.assignment, exit_, round((ended - child.started) * 1000), cpu_ms)

    def _forget(self, child: Child) -> None:
        del self._children[child.pid]
        for descriptor in (child.pidfd, child.output.descriptor):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def _read_output(self, child: Child) -> None:
        lines, is_open = child.output.lines()
        for line in lines:
            self._log.say(log_messages.output_line(child.assignment.worker_id, line))
        if not is_open and child.output.descriptor in self._selector.get_map():
            self._selector.unregister(child.output.descriptor)


def _tell(child: Child, number: signal.Signals) -> None:
    """The runner alone: its handler may finish, and so may what the handler started."""
    try:
        os.kill(child.pid, number)
    except ProcessLookupError:
        return


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            continue
    except BlockingIOError:
        return


MIN_RUNNERS_TO_PRELOAD = 2  # runners, unless more will follow: one alone imports what it needs no slower by itself


def start_runners(
    world: CycleContext, spawner: Spawner, supervisor: Supervisor, assignments: Sequence[Assignment]
) -> None:
    """No connection crosses the fork. Whoever is not started any more is rescued as one that never was."""
    world.database.close()
    for lane, some in groupby(assignments, key=lambda each: each.lane):
        if supervisor.may_spawn:
            _start_in(world, spawner, supervisor, lane, list(some))


def start_refused(world: CycleContext, spawner: Spawner, supervisor: Supervisor) -> None:
    """Each imports by itself what could not be shared."""
    refused = supervisor.nurseries.take_refused()
    if refused:
        world.database.close()
    for cradle in refused:
        supervisor.add(spawner.spawn(cradle))


def _start_in(
    world: CycleContext, spawner: Spawner, supervisor: Supervisor, lane: str, assignments: Sequence[Assignment]
) -> None:
    nursery = _nursery(spawner, supervisor, lane, assignments)
    cradles = []
    for assignment in assignments:
        if not supervisor.may_spawn:
            break
        world.log.say(log_messages.spawning_worker(assignment.worker_id, lane))
        cradle = spawner.prepare(assignment)
        if nursery is None:
            supervisor.add(spawner.spawn(cradle))
        else:
            cradles.append(cradle)
    if nursery is not None:
        nursery.expect(cradles)


def _nursery(
    spawner: Spawner, supervisor: Supervisor, lane: str, assignments: Sequence[Assignment]
) -> Preloader | None:
    nurseries = supervisor.nurseries
    if spawner.settings.spawn != "fork" or lane in nurseries.unshared or assignments[0].is_long:
        return None
    found = nurseries.get(lane)
    if found is not None or (len(assignments) < MIN_RUNNERS_TO_PRELOAD and not assignments[0].stays_until):
        return found
    opened = open_nursery(spawner, lane, assignments[0].deadline)
    nurseries.add(opened)
    return opened
