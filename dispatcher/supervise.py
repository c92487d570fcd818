"""Start the runners of a cycle and watch them: exits, memory, deadlines, output, and the dispatcher's own signals."""

import os
import selectors
import signal
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from types import FrameType

from dispatcher.context import CycleContext
from dispatcher.exits import Exit, KilledFor
from dispatcher.preload import Preloader, Preloaders, start_preloader
from dispatcher.spawn import ExitedRunner, RunnerProcess, Spawner
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.runners import Assignment
from mayfly.process.fork import HANDOVER, adopt_orphans, end_strays
from mayfly.process.identity import resident_bytes
from mayfly.process.timing import timing

TICK_SECONDS = 0.25
MIN_RUNNERS_TO_PRELOAD = 2  # unless more will follow: a single runner imports its handlers as fast by itself


class Supervisor:
    def __init__(self, context: CycleContext, release_lock: Callable[[], None]) -> None:
        self._context = context
        self._log = context.log
        self._deadline = context.deadline
        self._memory_limit = context.settings.worker_memory
        self._spawner = Spawner(
            context.settings, context.directory, context.database, (release_lock, self.close_in_child)
        )
        self._runners: dict[int, RunnerProcess] = {}
        self._selector = selectors.DefaultSelector()
        self._preloaders = Preloaders(self._selector, context.log)
        self._wake_read, self._wake_write = os.pipe()
        self._terminated_at: float | None = None
        self.stopped_by: str | None = None
        self.guard_fired = False
        self._successor_waits = False  # the next dispatcher asks for the host lock
        self._has_retired = False
        self._stop_claims_at: float | None = None  # for the runners of a dispatcher that has handed over
        self.left_running: list[RunnerProcess] = []  # runners of long lanes that outlive this dispatcher

    def install(self) -> None:
        """Signals wake `wait`; their handlers do nothing else that could block."""
        for each in (self._wake_read, self._wake_write):
            os.set_blocking(each, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(HANDOVER, self._on_handover)
        adopt_orphans()

    @property
    def alive(self) -> int:
        """Runners, started or not yet."""
        return len(self._runners) + self._preloaders.not_started

    @property
    def deadline(self) -> float:
        return self._deadline

    @property
    def may_spawn(self) -> bool:
        return self.stopped_by is None and not self.guard_fired and not self._has_retired

    @property
    def must_hand_over(self) -> bool:
        return self._successor_waits and not self._has_retired

    def idle_by_lane(self) -> Counter[str]:
        """Runners of this dispatcher that wait for work, or are about to."""
        waiting = (each.assignment.lane for each in self._runners.values() if not each.page.read().running)
        return Counter(waiting) + self._preloaders.not_started_by_lane()

    def start(self, assignments: Sequence[Assignment]) -> None:
        """Runners that cannot be started any more are rescued like runners that died before their first claim."""
        self._context.database.close()  # no connection crosses the fork
        for lane, some in groupby(assignments, key=lambda each: each.lane):
            if self.may_spawn:
                self._start_in(lane, list(some))
        self._deadline = max(self._deadline, self._context.deadline)  # runners that start later end later

    def start_rejected(self) -> None:
        """Start the runners whose preload process cannot be forked: each imports its handlers itself."""
        rejected = self._preloaders.take_rejected()
        if rejected:
            self._context.database.close()
        for pending in rejected:
            self._add(self._spawner.spawn(pending))

    def retire(self) -> None:
        """Start nothing more. The runners claim on until the next dispatcher has started its own, then exit."""
        self._has_retired = True
        self._stop_claims_at = monotonic() + timing().handover_seconds
        self._signal_all(HANDOVER, only_long=True)  # these are left to themselves at once

    def wait(self, seconds: float = TICK_SECONDS) -> list[ExitedRunner]:
        """Wait for an event, one tick at most; the runners that have exited."""
        exited: dict[int, RunnerProcess | Preloader] = {}
        for key, _ in self._selector.select(min(seconds, TICK_SECONDS)):
            child = key.data
            if child is None:
                _drain(self._wake_read)
            elif key.fd == child.pidfd:
                exited[child.pid] = child
            elif isinstance(child, Preloader):
                self._on_message(child)
            else:
                self._read_output(child)
        self._enforce(exited)
        return [each for pid in sorted(exited) for each in self._on_exit(exited[pid])]

    def close_in_child(self) -> None:
        """A forked runner keeps none of these descriptors."""
        self._selector.close()
        self._preloaders.close_in_child()
        for runner in self._runners.values():
            runner.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._preloaders.close()
        end_strays(spare={runner.pid for runner in self.left_running})
        self.close_in_child()

    # --- starting ---

    def _start_in(self, lane: str, assignments: Sequence[Assignment]) -> None:
        preloader = self._preloader(lane, assignments)
        prepared = []
        for assignment in assignments:
            if not self.may_spawn:
                break
            self._log.say(log_messages.spawning_worker(assignment.worker_id, lane))
            pending = self._spawner.prepare(assignment)
            if preloader is None:
                self._add(self._spawner.spawn(pending))
            else:
                prepared.append(pending)
        if preloader is not None:
            preloader.add(prepared)

    def _preloader(self, lane: str, assignments: Sequence[Assignment]) -> Preloader | None:
        first = assignments[0]
        if self._context.settings.spawn != "fork" or lane in self._preloaders.disabled_lanes or first.is_long:
            return None
        known = self._preloaders.get(lane)
        if known is not None or (len(assignments) < MIN_RUNNERS_TO_PRELOAD and not first.stays_until):
            return known
        started = start_preloader(self._spawner, lane, first.deadline)
        self._preloaders.add(started)
        return started

    def _add(self, runner: RunnerProcess) -> None:
        self._runners[runner.pid] = runner
        self._selector.register(runner.pidfd, selectors.EVENT_READ, runner)
        self._selector.register(runner.output.descriptor, selectors.EVENT_READ, runner)
        if self.stopped_by is not None:  # the signal came between the decision and the fork
            runner.send_signal(HANDOVER if runner.assignment.is_long else signal.SIGTERM)
        elif self._has_retired:  # the next dispatcher has planned without it
            runner.send_signal(HANDOVER)

    # --- signals and deadlines ---

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        if self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
            for runner in self._runners.values():
                runner.send_signal(HANDOVER if runner.assignment.is_long else signal.SIGTERM)
            self._log.say(log_messages.stopping(self.stopped_by, self.alive))

    def _on_handover(self, _number: int, _frame: FrameType | None) -> None:
        self._successor_waits = True

    def _enforce(self, exited: Collection[int]) -> None:
        now = monotonic()
        if self._stop_claims_at is not None and now >= self._stop_claims_at:
            self._stop_claims_at = None
            self._signal_all(HANDOVER)
        if now >= self._deadline or not self.may_spawn:
            self._leave_long(exited)
        if now >= self._deadline and self.alive:
            self._end_all(now, exited)
        self._preloaders.enforce(now, timing().overdue_seconds, self._memory_limit)
        for pid, runner in self._runners.items():
            if runner.killed_for is None and pid not in exited:  # one that has exited by itself was not killed
                self._enforce_limits(runner, now)

    def _signal_all(self, number: signal.Signals, only_long: bool = False) -> None:
        for runner in self._runners.values():
            if runner.assignment.is_long or not only_long:
                runner.send_signal(number)

    def _leave_long(self, exited: Collection[int]) -> None:
        """Runners of long lanes outlive the dispatcher; later cycles count them and end them at their deadline."""
        long = [each for pid, each in self._runners.items() if each.assignment.is_long and pid not in exited]
        for runner in long:
            self._log.say(log_messages.left_running(runner.assignment.worker_id, runner.assignment.lane))
            self._forget(runner)
            runner.close()
            self.left_running.append(runner)

    def _end_all(self, now: float, exited: Collection[int]) -> None:
        """The dispatcher's own guard: TERM, and a second later KILL, of every process group still alive."""
        if self._terminated_at is None:
            self.guard_fired = True
            self._terminated_at = now
            timeout_seconds = self._context.settings.dispatch_timeout
            self._log.say(log_messages.dispatch_timeout(timeout_seconds, self.alive - len(exited)))
            number = signal.SIGTERM
        elif now >= self._terminated_at + timing().kill_seconds:
            number = signal.SIGKILL
        else:
            return
        self._preloaders.end_all()
        for runner in [each for pid, each in self._runners.items() if pid not in exited]:
            runner.killed_for = runner.killed_for or KilledFor.TIME
            runner.kill_group(number)

    def _enforce_limits(self, runner: RunnerProcess, now: float) -> None:
        worker_id = runner.assignment.worker_id
        hard_deadline = runner.page.hard_deadline
        if hard_deadline and now > hard_deadline + timing().overdue_seconds:
            self._log.say(log_messages.worker_overdue(worker_id))
            self._kill(runner, KilledFor.TIME)
        if self._memory_limit is not None:
            memory = resident_bytes(runner.pid)
            if memory > self._memory_limit:
                self._log.say(log_messages.worker_too_large(worker_id, memory, self._memory_limit))
                self._kill(runner, KilledFor.MEMORY)

    def _kill(self, runner: RunnerProcess, reason: KilledFor) -> None:
        runner.killed_for = reason
        runner.kill_group(signal.SIGKILL)

    # --- events of children ---

    def _on_message(self, preloader: Preloader) -> None:
        self._preloaders.read_output(preloader)
        for runner in self._preloaders.read_messages(preloader):
            self._add(runner)

    def _on_exit(self, child: RunnerProcess | Preloader) -> list[ExitedRunner]:
        if isinstance(child, Preloader):
            self._on_message(child)  # its last messages may report runners
            return self._preloaders.wait_for(child)
        return [self._wait_for(child)]

    def _wait_for(self, runner: RunnerProcess) -> ExitedRunner:
        runner.kill_group(signal.SIGKILL)  # what its handlers left running; the pid is not reused before the wait
        _pid, wait_status, usage = os.wait4(runner.pid, 0)
        ended = monotonic()
        self._read_output(runner)
        if runner.output.dropped:
            self._log.say(log_messages.output_dropped(runner.assignment.worker_id, runner.output.dropped))
        self._forget(runner)
        status = runner.page.read()
        exit_ = Exit(
            code=os.waitstatus_to_exitcode(wait_status),
            status=status,
            ended=ended,
            peak_memory=usage.ru_maxrss * 1024,
            killed_for=KilledFor.MEMORY if status.too_large else runner.killed_for,  # the former by its lease keeper
        )
        runner.close()
        cpu_ms = round((usage.ru_utime + usage.ru_stime) * 1000)
        return ExitedRunner(runner.assignment, exit_, round((ended - runner.started_at) * 1000), cpu_ms)

    def _forget(self, runner: RunnerProcess) -> None:
        del self._runners[runner.pid]
        for descriptor in (runner.pidfd, runner.output.descriptor):
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)

    def _read_output(self, runner: RunnerProcess) -> None:
        lines, is_open = runner.output.lines()
        for line in lines:
            self._log.say(log_messages.output_line(runner.assignment.worker_id, line))
        if not is_open and runner.output.descriptor in self._selector.get_map():
            self._selector.unregister(runner.output.descriptor)


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            continue
    except BlockingIOError:
        return
