"""Lingering: the dispatcher stays for the minute, polls for due jobs, and hands over to the next dispatcher.

A lane with a runner that waits for jobs is polled by that runner, which also receives the wake-ups of its producers.
Its dispatcher only detects more work than one runner can do, and receives the wake-ups of all other lanes.
"""

from collections.abc import Collection, Container, Iterable
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.assign import CountedWork
from dispatcher.context import HostLock, take_lock
from dispatcher.rescue import ExitedRunner
from dispatcher.steps import CycleStep
from dispatcher.summary import Ending
from dispatcher.supervise import TICK_SECONDS
from mayfly import log_messages
from mayfly.clock import host_now, monotonic, pause
from mayfly.db.connection import Connection
from mayfly.errors import WakeDirUnsafe
from mayfly.fleet.cycles import cycles_still_supervised, forget_leaving, note_leaving, read_dispatcher
from mayfly.fleet.plan import Plan
from mayfly.fleet.runners import live_runners
from mayfly.log import Log
from mayfly.process import timing
from mayfly.process.fork import HANDOVER
from mayfly.process.wakeups import DISPATCHER, WakeupSocket
from mayfly.queue.arrivals import Arrivals
from mayfly.queue.count import job_groups, lanes_with_due

if TYPE_CHECKING:
    from dispatcher.full_cycle import FullCycle

TAKE_OVER_TIMEOUT_SECONDS = 5.0  # the holder finishes its plan first: milliseconds, unless the database is slow
TAKE_OVER_POLL_SECONDS = 0.01
SECONDS_PER_LANE = 0.001  # a poll of many lanes costs more, and comes less often
ANNOUNCED_SECONDS = 0.005  # between two polls of lanes whose jobs are announced
BUSY_LANE_SECONDS = 0.25  # between two polls of a lane whose jobs have to wait for a runner


def take_over(path: Path, log: Log) -> HostLock | None:
    """Request the lock from its holder; None if that dispatcher does not linger or does not release it in time."""
    holder = read_dispatcher(path)
    if holder is None or not holder.lingers or not holder.process.send_signal(HANDOVER):
        return None
    deadline = monotonic() + TAKE_OVER_TIMEOUT_SECONDS
    while (lock := take_lock(path)) is None and monotonic() < deadline:
        pause(TAKE_OVER_POLL_SECONDS)
    if lock is not None:
        log.write(log_messages.took_over())
    return lock


class PollSchedule:
    """When the dispatcher polls which lanes: active ones as often as jobs arrive, all of them once per POLL_INTERVAL.

    The caller passes the time, and the lanes that need no polls: a runner waits in them, or they linger no more.
    """

    def __init__(self, longest: float, now: float, extra: float = 0.0) -> None:
        """`extra`: seconds added to the time between two polls."""
        self._longest = longest
        self._extra = extra
        self._lanes = 0
        self._polled_at = self._swept_at = now
        self._active: dict[str, Arrivals] = {}
        self._busy_until: dict[str, float] = {}
        self._announced: set[str] = set()  # since the last poll

    def next_at(self, covered: Container[str], now: float) -> float:
        active = self._polled_lanes(covered, now)
        if not active:
            return self._sweep_at
        if self._announced.intersection(active):
            return min(self._polled_at + ANNOUNCED_SECONDS, self._sweep_at)
        interval = min(self._active[lane].poll_seconds(now, self._longest) for lane in active)
        return min(self._polled_at + max(interval, SECONDS_PER_LANE * len(active)) + self._extra, self._sweep_at)

    def lanes_to_poll(self, covered: Container[str], now: float) -> Collection[str] | None:
        """None: all lanes. Called when a poll is due."""
        self._polled_at = now
        self._announced.clear()
        if now < self._sweep_at:
            return self._polled_lanes(covered, now)
        self._swept_at = now
        self._active = {
            lane: each for lane, each in self._active.items() if each.poll_seconds(now, self._longest) < self._longest
        }
        return None

    def note_lanes(self, lanes: int) -> None:
        """How many lanes there are."""
        self._lanes = lanes

    def expect_jobs(self, lanes: Iterable[str], now: float) -> None:
        for lane in lanes:
            self._active.setdefault(lane, Arrivals(now))

    def announce_jobs(self, lanes: Iterable[str], now: float) -> None:
        """Jobs have been enqueued in these lanes just now."""
        announced = set(lanes)
        self.expect_jobs(announced, now)
        self._announced |= announced

    def note_jobs(self, lane: str, jobs: int, now: float) -> None:
        self._active[lane] = self._active.get(lane, Arrivals(now)).plus(jobs, now)

    def note_busy(self, lanes: Iterable[str], now: float) -> None:
        """These lanes have due jobs, and a plan has started what it may."""
        self._busy_until.update(dict.fromkeys(lanes, now + BUSY_LANE_SECONDS))

    @property
    def active(self) -> Collection[str]:
        return self._active.keys()

    def active_since(self, at: float) -> frozenset[str]:
        """The lanes whose last job came later than this."""
        return frozenset(lane for lane, each in self._active.items() if each.last_at > at)

    def last_job_at(self, lane: str) -> float:
        return self._active[lane].last_at if lane in self._active else 0.0

    @property
    def _sweep_at(self) -> float:
        return self._swept_at + max(self._longest, SECONDS_PER_LANE * self._lanes) + self._extra

    def _polled_lanes(self, covered: Container[str], now: float) -> list[str]:
        return [lane for lane in self._active if lane not in covered and now >= self._busy_until.get(lane, 0.0)]


class Linger(CycleStep):
    """Jobs that it finds are planned like others."""

    def __init__(self, cycle: "FullCycle") -> None:
        super().__init__(cycle)
        self._until = self.context.lingers_until(self.context.settings.longest_linger)
        self._schedule = PollSchedule(self.context.settings.poll_interval, monotonic(), timing().extra_poll_seconds)
        self._lingers_until = cache(self._find_end)  # called for every lane at every poll
        self._lanes: set[str] = set()
        self._wakeups: WakeupSocket | None = None
        self._jobs_run: dict[str, int] = {}  # by worker_id
        self._expected: frozenset[str] = frozenset()
        self._count_at = 0.0
        self._expect_at = 0.0
        self._polls = 0
        self._plans = 0

    @property
    def is_active(self) -> bool:
        """Not after a handover or a stop signal, even if runners are still supervised."""
        return self.cycle.supervisor.may_spawn and monotonic() < self._until

    @property
    def seconds_to_poll(self) -> float:
        """How long the supervisor may wait for other events."""
        if not self.is_active:
            return TICK_SECONDS
        now = monotonic()
        return max(0.0, min(TICK_SECONDS, self._schedule.next_at(self._covered(), now) - now))

    def before_plan(self) -> None:
        """A lane in which a runner of the previous dispatcher waits gets one that is ready before that one exits.

        The plan finds jobs that were announced to the previous dispatcher.
        """
        if self.is_active:
            self._open_socket()
        supervised = cycles_still_supervised(self.context.directory) if self.is_active else frozenset()
        if supervised:
            runners = self.context.database.read(live_runners)
            lanes = {each.lane for each in runners if each.cycle_id in supervised and each.host == self.context.host}
            self._schedule.expect_jobs(lanes, monotonic())
            self._expected = frozenset(lanes)

    def after_spawn(self) -> None:
        if self.is_active:
            counted = self.cycle.planned.counted
            lanes = {*counted.running, *(each.lane for each in counted.due if each.pending)}
            self._schedule.expect_jobs(filter(self._lingers, lanes), monotonic())
            left = timedelta(seconds=self._until - monotonic())
            self.context.log.write(log_messages.lingering(host_now() + left))

    def on_tick(self) -> None:
        """After the handover the next dispatcher plans; this one supervises its runners until they have exited."""
        supervisor = self.cycle.supervisor
        self._receive_wakeups()
        if supervisor.must_hand_over:
            note_leaving(self.context.directory, self.cycle.planned.cycle_id, self.context.process)
            self.cycle.lock.hand_over()
            supervisor.retire()
            self.context.log.write(log_messages.handed_over(supervisor.alive))
        elif self.is_active and monotonic() >= self._count_at:
            self._count_at = monotonic() + self.context.settings.poll_interval
            for worker_id, lane, jobs in supervisor.jobs_run():
                self._note_jobs(worker_id, lane, jobs)

    def _open_socket(self) -> None:
        try:
            self._wakeups = WakeupSocket(self.context.settings, DISPATCHER)
        except WakeDirUnsafe as error:
            self.context.log.write(log_messages.setting_warning(str(error)))
        else:
            self.cycle.supervisor.watch_wakeups(self._wakeups)

    def _receive_wakeups(self) -> None:
        if self._wakeups is None:
            return
        lanes = {each.lane for each in self._wakeups.receive()}
        self._schedule.announce_jobs(filter(self._lingers, lanes), monotonic())
        if not self.is_active:
            self._wakeups = None
            self.cycle.supervisor.watch_wakeups(None)

    def finish(self) -> None:
        forget_leaving(self.context.directory, self.cycle.planned.cycle_id)

    def summary_lines(self) -> list[str]:
        return [f"Polls while lingering: {self._polls}, further plans: {self._plans}"] if self._polls else []

    def stop(self) -> None:
        """Stop polling, after an error."""
        self._until = 0.0

    def finds_work(self) -> bool:
        """Whether a lingering lane has due jobs; False until the next poll is due."""
        now, covered = monotonic(), self._covered()
        if self.expected() and now >= self._expect_at:
            self._expect_at = now + BUSY_LANE_SECONDS
            return True
        if not self.is_active or now < self._schedule.next_at(covered, now):
            return False
        self._polls += 1
        found = self.context.database.read(partial(self._poll, only=self._schedule.lanes_to_poll(covered, now)))
        self._schedule.expect_jobs(found, monotonic())
        self._schedule.note_busy(found, monotonic())
        return bool(found)

    def note_plan(self) -> None:
        """New work was found and planned."""
        self._plans += 1

    def note_exit(self, ended: ExitedRunner) -> None:
        status, assignment = ended.exit.status, ended.assignment
        self._note_jobs(assignment.worker_id, assignment.lane, status.done + status.failed)
        if 0 < assignment.stays_until <= monotonic() and ended.exit.ending is Ending.OK:
            self._expected |= {assignment.lane}

    def expected(self) -> frozenset[str]:
        """Lanes in which jobs arrive, and whose last waiting runner has exited, or will exit after a handover."""
        if self._expected:
            recent = self._schedule.active_since(monotonic() - timing().idle_runner_seconds)
            self._expected = frozenset(filter(self._lingers, (self._expected & recent).difference(self._waiting())))
        return self._expected

    def make_room(self, counted: CountedWork, plan: Plan) -> None:
        """Let runners that only wait exit, if lanes with jobs need their slots."""
        needed = len(plan.passed_over())
        if needed and self.is_active:
            empty = {each.lane for each in counted.due if not each.pending}
            self.cycle.supervisor.release_waiting(sorted(empty, key=self._schedule.last_job_at), needed)

    def lanes_to_skip(self, unserved: Iterable[str]) -> frozenset[str]:
        """Lanes for which a poll starts no runners: these, and those that do not linger."""
        return frozenset(unserved).union(lane for lane in self._lanes if not self._lingers(lane))

    def _waiting(self) -> Collection[str]:
        """Lanes in which a runner of this dispatcher waits."""
        return self.cycle.supervisor.idle_by_lane().keys()

    def _covered(self) -> frozenset[str]:
        return frozenset(self._waiting()).union(lane for lane in self._schedule.active if not self._lingers(lane))

    def _note_jobs(self, worker_id: str, lane: str, jobs: int) -> None:
        more = jobs - self._jobs_run.get(worker_id, 0)
        if more:
            self._jobs_run[worker_id] = jobs
            self._schedule.note_jobs(lane, more, monotonic())

    def _poll(self, connection: Connection, only: Collection[str] | None) -> set[str]:
        """The lanes that have due jobs. With a statement for some lanes, or with one for all of them."""
        now = self.context.database.clock.now()
        if only is not None:
            return lanes_with_due(connection, list(only), now) | self._lanes_with_due_rows(connection, only, now)
        groups = job_groups(connection)
        self._lanes = {group.lane for group in groups} | self.context.settings.lanes_of_sources
        self._schedule.note_lanes(len(self._lanes))
        lanes = list(filter(self._lingers, self._lanes))
        due = {group.lane for group in groups if group.is_due(now)}.intersection(lanes)
        return due | self._lanes_with_due_rows(connection, lanes, now)

    def _lanes_with_due_rows(self, connection: Connection, lanes: Container[str], now: datetime) -> set[str]:
        sources = self.context.sources
        if sources is None:
            return set()
        from mayfly.queue.sources import count_by_source  # most installations have no sources

        tables = [each for each in self.context.usable_sources if each.source.lane in lanes]
        rows, problems = count_by_source(connection, sources, tables, now, lambda _lane: 0)
        for each in problems:
            self.context.note_source_problem(each)
        return {sources.tables[name].source.lane for name in rows}

    def _lingers(self, lane: str) -> bool:
        return monotonic() < self._lingers_until(lane)

    def _find_end(self, lane: str) -> float:
        """Until when polls start runners for this lane."""
        resolved = self.context.settings.lane(lane)
        if resolved.external or not self.context.serves(lane) or not resolved.linger:
            return 0.0
        return self.context.lingers_until(resolved.linger)
