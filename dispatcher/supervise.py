"""Start the runners of a cycle and supervise them: exits, memory, deadlines, output. Also handles stop signals."""

import os
import selectors
import signal
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from types import FrameType

from dispatcher.context import CycleContext
from dispatcher.preload import Preloader, start_preloader
from dispatcher.rescue import ExitedRunner, KilledFor
from dispatcher.spawn import RunnerProcess, Spawner
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.fleet.runners import Assignment, ObservedRunner
from mayfly.process import timing
from mayfly.process.fork import HANDOVER, adopt_orphans, end_strays
from mayfly.process.identity import resident_bytes
from mayfly.process.status_page import RunningJob
from mayfly.process.wakeups import WakeupSocket

TICK_SECONDS = 0.25
WAKE_BYTES = 64 << 10  # the size of a pipe's buffer
MIN_RUNNERS_TO_PRELOAD = 2  # unless more will follow: for a single runner preloading saves nothing


class Supervisor:
    def __init__(
        self, context: CycleContext, release_lock: Callable[[], None], waiting_lanes: Sequence[str] = ()
    ) -> None:
        self._context = context
        self._log = context.log
        self.deadline = context.deadline
        self._memory_limit = cache(lambda lane: context.settings.lane(lane).worker_memory)  # called at every tick
        self._spawner = Spawner(
            context.settings,
            context.directory,
            context.database,
            waiting_lanes,
            (release_lock, self.close_in_child),
        )
        self._runners: dict[int, RunnerProcess] = {}
        self._selector = selectors.DefaultSelector()
        self._preloaders: dict[str, Preloader] = {}  # by the first lane with these settings
        self._first_lanes: dict[str, str] = {}  # by shared settings
        self._unshared_lanes: set[str] = set()  # lanes for which preloading is disabled, see fork_hazard
        self._rejected: list[RunnerProcess] = []  # runners of these lanes, to be started without a preload process
        self._wake_read, self._wake_write = os.pipe()
        self._wakeups: WakeupSocket | None = None
        self._terminated_at: float | None = None
        self.stopped_by: str | None = None
        self.guard_fired = False
        self._successor_waits = False  # the next dispatcher has requested the host lock
        self._has_retired = False
        self._stop_claims_at: float | None = None  # for the runners of a dispatcher that has handed over
        self.left_running: list[RunnerProcess] = []  # runners of long lanes that outlive this dispatcher

    def install(self) -> None:
        """Signals wake up `wait`; their handlers never block."""
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
        """The number of runners, including those that are not started yet."""
        return len(self._runners) + len(self._not_started)

    @property
    def _not_started(self) -> list[RunnerProcess]:
        return self._rejected + [each for preloader in self._preloaders.values() for each in preloader.not_started]

    @property
    def may_spawn(self) -> bool:
        return self.stopped_by is None and not self.guard_fired and not self._has_retired

    @property
    def has_handed_over(self) -> bool:
        return self._has_retired

    @property
    def must_hand_over(self) -> bool:
        return self._successor_waits and not self._has_retired

    @property
    def observed(self) -> list[ObservedRunner]:
        """Started runners, except those of long lanes: their lease keepers write their figures."""
        return [each.observed for each in self._runners.values() if not each.assignment.is_long]

    def idle_by_lane(self) -> Counter[str]:
        """The number of this dispatcher's runners that wait for work or have not started."""
        waiting = [each for each in self._runners.values() if not each.page.read().running]
        return Counter(each.lane for each in (*waiting, *self._not_started))

    def jobs_run(self) -> Iterator[tuple[str, str, int]]:
        """The worker_id and lane of each live runner, and how many jobs it has run."""
        for runner in self._runners.values():
            status = runner.page.read()
            yield runner.assignment.worker_id, runner.lane, status.done + status.failed

    def release_waiting(self, lanes: Sequence[str], count: int) -> None:
        """Let this many runners of these lanes exit that wait for jobs, those of the first lanes first."""
        waiting = [each for each in self._runners.values() if not each.page.read().running]
        released = [each for lane in lanes for each in waiting if each.lane == lane]
        for runner in released[:count]:
            self._log.write(log_messages.slot_needed(runner.assignment.worker_id, runner.lane))
            runner.send_signal(HANDOVER)

    def slow_runners(self) -> list[tuple[RunnerProcess, RunningJob]]:
        """Runners whose oldest running job is a slow one, with this job. Long lanes claim one job at a time."""
        latest = monotonic() - timing().slow_job_seconds
        found = []
        for runner in self._runners.values():
            running = () if runner.assignment.is_long else runner.page.read().running
            oldest = min(running, key=lambda each: each.started, default=None)
            if oldest is not None and oldest.started <= latest:
                found.append((runner, oldest))
        return found

    def dropped_jobs(self) -> list[tuple[RunnerProcess, list[tuple[int, int]]]]:
        """Jobs that runners have dropped and that are not released yet: ids and fencing tokens."""
        found = [(runner, runner.page.dropped_since(runner.released)) for runner in self._runners.values()]
        return [(runner, dropped) for runner, dropped in found if dropped]

    def start(self, assignments: Sequence[Assignment]) -> None:
        """After a stop signal no more are started: those rows are rescued like runners that died before a claim."""
        if assignments:
            self._log.write(log_messages.spawning(len(assignments)))
        self._context.database.close()  # no connection crosses the fork
        for lane_assignments in self._alike(assignments):
            preloader = self._preloader(lane_assignments) if self.may_spawn else None
            for assignment in lane_assignments:
                if not self.may_spawn:
                    break
                self._log.write(log_messages.spawning_worker(assignment.worker_id, assignment.lane))
                runner = self._spawner.prepare(assignment)
                if preloader is None:
                    self._spawn(runner)
                else:
                    preloader.waiting.append(runner)
            if preloader is not None:
                preloader.send_requests()
        self.deadline = max(self.deadline, self._context.deadline)  # runners that start later may run longer

    def start_rejected(self) -> None:
        """Start the runners of lanes that cannot preload: each imports its handlers itself."""
        if not self._rejected:
            return
        self._context.database.close()
        try:
            while self._rejected:
                self._spawn(self._rejected.pop(0))
        finally:
            self._rejected.clear()  # after a failed fork: the next cycle rescues them

    def retire(self) -> None:
        """Start no more runners. Running ones claim until the next dispatcher has started its own, then exit."""
        self._has_retired = True
        self._stop_claims_at = monotonic() + timing().handover_seconds
        for runner in self._runners.values():
            if runner.assignment.is_long:  # no longer supervised from now on
                runner.send_signal(HANDOVER)

    def wait(self, seconds: float = TICK_SECONDS) -> list[ExitedRunner]:
        """Wait for an event, at most one tick; returns the runners that have exited."""
        exited: dict[int, RunnerProcess | Preloader] = {}
        # Select again: if this process was suspended, the timeout may have expired before a runner exited.
        for key, _ in self._selector.select(min(seconds, TICK_SECONDS)) or self._selector.select(0):
            child = key.data
            if child is None:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, WAKE_BYTES)
            elif child is self._wakeups:
                continue  # dispatcher.linger receives them after each event
            elif key.fd == child.pidfd:
                exited[child.pid] = child
            elif isinstance(child, Preloader):
                self._on_message(child)
            else:
                self._read_output(child)
        self._enforce(exited)
        return [each for pid in sorted(exited) for each in self._on_exit(exited[pid])]

    def watch_wakeups(self, wakeups: WakeupSocket | None) -> None:
        """Wait for wake-ups, too. The socket of the last call is closed."""
        if self._wakeups is not None:
            self._selector.unregister(self._wakeups)
            self._wakeups.close()
        self._wakeups = wakeups
        if wakeups is not None:
            self._selector.register(wakeups, selectors.EVENT_READ, wakeups)

    def close_in_child(self) -> None:
        """A forked runner must not keep these descriptors."""
        self._selector.close()
        if self._wakeups is not None:
            self._wakeups.close()
        for child in (*self._preloaders.values(), *self._rejected, *self._runners.values()):
            child.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for preloader in self._preloaders.values():  # they have no work that could be lost
            preloader.kill_group(signal.SIGKILL)
            os.waitpid(preloader.pid, 0)
            self._read_rest(preloader)
        end_strays(spare={runner.pid for runner in self.left_running})
        self.close_in_child()

    # --- starting ---

    def _alike(self, assignments: Sequence[Assignment]) -> list[list[Assignment]]:
        """Runners that one process may preload the handlers for, in the order of their first one."""
        groups: dict[str, list[Assignment]] = {}
        for each in assignments:
            groups.setdefault(self._preloading_lane(each), []).append(each)
        return list(groups.values())

    def _preloading_lane(self, assignment: Assignment) -> str:
        """Each lane has a preload process; runners that serve the same lanes have one for all of them."""
        if assignment.shares is None:
            return assignment.lane
        return self._first_lanes.setdefault(assignment.shares, assignment.lane)

    def _preloader(self, assignments: Sequence[Assignment]) -> Preloader | None:
        first = assignments[0]
        lane = self._preloading_lane(first)
        if self._context.settings.spawn != "fork" or lane in self._unshared_lanes or first.is_long:
            return None
        known = self._preloaders.get(lane)
        if known is not None or (len(assignments) < MIN_RUNNERS_TO_PRELOAD and not first.stays_until):
            return known
        started = start_preloader(self._spawner, lane, first.deadline)
        self._preloaders[lane] = started
        self._watch(started)
        return started

    def _spawn(self, runner: RunnerProcess) -> None:
        self._spawner.spawn(runner)
        self._add(runner)

    def _watch(self, child: RunnerProcess | Preloader) -> None:
        for descriptor in child.descriptors:
            self._selector.register(descriptor, selectors.EVENT_READ, child)

    def _add(self, runner: RunnerProcess) -> None:
        self._runners[runner.pid] = runner
        self._watch(runner)
        if self.stopped_by is not None:  # the signal arrived before the fork
            self._stop(runner)
        elif self._has_retired:  # the next dispatcher has planned without this runner
            runner.send_signal(HANDOVER)

    # --- signals and deadlines ---

    def _on_stop(self, number: int, _frame: FrameType | None) -> None:
        if self.stopped_by is None:
            self.stopped_by = signal.Signals(number).name
            for runner in self._runners.values():
                self._stop(runner)
            self._log.write(log_messages.stopping(self.stopped_by, self.alive))

    def _stop(self, runner: RunnerProcess) -> None:
        runner.send_signal(HANDOVER if runner.assignment.is_long else signal.SIGTERM)

    def _on_handover(self, _number: int, _frame: FrameType | None) -> None:
        self._successor_waits = True

    def _enforce(self, exited: Collection[int]) -> None:
        now = monotonic()
        if self._stop_claims_at is not None and now >= self._stop_claims_at:
            self._stop_claims_at = None
            for runner in self._runners.values():
                runner.send_signal(HANDOVER)
        if now >= self.deadline or not self.may_spawn:
            self._leave_long(exited)
        if now >= self.deadline and self.alive > len(exited):
            self._end_all(now, exited)
        for preloader in self._preloaders.values():
            preloader.send_requests()
            if preloader.killed_for is not None or not preloader.not_started:
                continue
            if now > preloader.deadline + timing().overdue_seconds:
                preloader.kill(KilledFor.TIME)
            elif (limit := self._memory_limit(preloader.lane)) and resident_bytes(preloader.pid) > limit:
                preloader.kill(KilledFor.MEMORY)
        for pid, runner in self._runners.items():
            if runner.killed_for is None and pid not in exited:
                self._enforce_limits(runner, now)

    def _leave_long(self, exited: Collection[int]) -> None:
        """Runners of long lanes outlive the dispatcher; later cycles count them and kill those that are overdue."""
        long = [each for pid, each in self._runners.items() if each.assignment.is_long and pid not in exited]
        for runner in long:
            self._log.write(log_messages.left_running(runner.assignment.worker_id, runner.assignment.lane))
            del self._runners[runner.pid]
            self._close(runner)
            self.left_running.append(runner)

    def _end_all(self, now: float, exited: Collection[int]) -> None:
        """The dispatcher's own guard: TERM, and a second later KILL, to every process group that is still alive."""
        if self._terminated_at is None:
            self.guard_fired = True
            self._terminated_at = now
            timeout_seconds = self._context.settings.dispatch_timeout
            self._log.write(log_messages.dispatch_timeout(timeout_seconds, self.alive - len(exited)))
            number = signal.SIGTERM
        elif now >= self._terminated_at + timing().kill_seconds:
            number = signal.SIGKILL
        else:
            return
        for preloader in self._preloaders.values():  # runners that have not started by now are not started
            preloader.kill(preloader.killed_for or KilledFor.TIME)
        for runner in [each for pid, each in self._runners.items() if pid not in exited]:
            runner.killed_for = runner.killed_for or KilledFor.TIME
            runner.kill_group(number)

    def _enforce_limits(self, runner: RunnerProcess, now: float) -> None:
        worker_id = runner.assignment.worker_id
        hard_deadline = runner.page.hard_deadline
        if hard_deadline and now > hard_deadline + timing().overdue_seconds:
            self._log.write(log_messages.worker_overdue(worker_id))
            runner.kill(KilledFor.TIME)
        limit = self._memory_limit(runner.assignment.lane)
        if limit is not None and (memory := resident_bytes(runner.pid)) > limit:
            self._log.write(log_messages.worker_too_large(worker_id, memory, limit))
            runner.kill(KilledFor.MEMORY)

    # --- events of children ---

    def _on_message(self, preloader: Preloader) -> None:
        self._read_output(preloader)
        for message in preloader.messages():
            if "pids" in message:
                request = preloader.note_forks(message["pids"])
                for runner in request.runners:
                    self._add(runner)
                os.close(request.go)  # after any stop signal: a stopped runner claims nothing
            elif message["fork_unsafe"] is None:
                preloader.is_ready = True
            else:
                self._log.write(log_messages.preload_disabled(preloader.lane, message["fork_unsafe"]))
                self._unshared_lanes.add(preloader.lane)
                self._rejected.extend(preloader.waiting)
                preloader.waiting.clear()
                preloader.kill_group(signal.SIGKILL)
        preloader.send_requests()

    def _on_exit(self, child: RunnerProcess | Preloader) -> list[ExitedRunner]:
        if isinstance(child, Preloader):
            self._on_message(child)  # its last messages may report runners
        child.kill_group(signal.SIGKILL)  # processes that its handlers left; the pid is not reused before the wait
        _pid, wait_status, usage = os.wait4(child.pid, 0)
        code, ended, peak_memory = os.waitstatus_to_exitcode(wait_status), monotonic(), usage.ru_maxrss * 1024
        self._read_rest(child)
        if isinstance(child, Preloader):
            del self._preloaders[child.lane]
            exited = child.exited_runners(code, ended, peak_memory)
            if child.lane not in self._unshared_lanes:
                self._log.write(log_messages.preload_process_ended(child.lane, code, len(exited)))
        else:
            del self._runners[child.pid]
            exited = [child.exited(code, ended, peak_memory, round((usage.ru_utime + usage.ru_stime) * 1000))]
        self._close(child)
        return exited

    def _close(self, child: RunnerProcess | Preloader) -> None:
        for descriptor in child.descriptors:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        child.close()

    def _read_output(self, child: RunnerProcess | Preloader) -> None:
        lines, is_open = child.output.lines()
        for line in lines:
            self._log.write(child.printed(line))
        if not is_open and child.output.descriptor in self._selector.get_map():
            self._selector.unregister(child.output.descriptor)

    def _read_rest(self, child: RunnerProcess | Preloader) -> None:
        self._read_output(child)
        if child.output.dropped:
            self._log.write(child.dropped())
