"""A cycle with work: rescue, schedules, plan, spawn, supervise, finish. Imported if the idle check finds any."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dispatcher.assign import (
    LaneConditions,
    Planned,
    count_work,
    has_window,
    interrupted_first,
    log_plan,
    make_plan,
    plan,
    with_first_jobs,
)
from dispatcher.context import LAST_STATEMENTS_SECONDS, CycleContext, HostLock
from dispatcher.cycle import describe, log_summary
from dispatcher.lane_figures import lane_figures
from dispatcher.launch import LaunchStep
from dispatcher.linger import Linger
from dispatcher.rescue import Rescuer
from dispatcher.steps import BatchStep, CycleStep, FiguresStep, ReclaimStep, ScheduleStep, SourceStep, prune_old_rows
from dispatcher.summary import CycleSummary, cycle_row
from dispatcher.supervise import Supervisor
from dispatcher.waiting_lanes import WaitingLanes
from mayfly import log_messages
from mayfly.clock import host_now, monotonic
from mayfly.errors import MayflyError
from mayfly.fleet.cycles import Dispatcher, clear_unrecorded, close_cycle, note_unrecorded
from mayfly.fleet.plan_lock import planning
from mayfly.process.programs import taken_names
from mayfly.stats.totals import add_up_totals


class FullCycle:
    """The state of one cycle, and its steps in order."""

    planned: Planned
    rescuer: Rescuer

    def __init__(self, context: CycleContext, lock: HostLock) -> None:
        self.context = context
        self.lock = lock
        self.problems: list[str] = []  # errors other than those of runners
        self.has_failed = False  # the cycle itself had an error: no further plans
        self.waiting_lanes = WaitingLanes(context)
        self.supervisor = Supervisor(context, lock.close, self.waiting_lanes.names)
        self.linger = Linger(self)
        self.reclaim = ReclaimStep(self)
        self.launch = LaunchStep(self)
        self.steps: list[CycleStep] = [
            ScheduleStep(self), self.linger, self.reclaim, FiguresStep(self), SourceStep(self), BatchStep(self),
            self.launch,
        ]  # fmt: skip

    def run(self) -> CycleSummary:
        context = self.context
        for taken in taken_names(context.settings.home):
            context.log.write(log_messages.package_name_taken(taken.path, taken.package))
        self.supervisor.install()
        self.lock.sign(Dispatcher(context.process, lingers=context.settings.longest_linger > 0).as_text())
        try:
            self._rescue_and_plan()
            with self._contained():
                self._start(self.planned)
                for step in self.steps:
                    step.after_spawn()
            while self.supervisor.alive or self.linger.is_active or self.launch.is_busy:
                self._supervise()
        finally:
            self.supervisor.close()
            self.waiting_lanes.close()
        context.database.set_deadline(self._statement_deadline(is_last=True))
        return self._finish()

    def _rescue_and_plan(self) -> None:
        """Jobs of dead runners are released, and jobs of due schedules inserted, before due jobs are counted."""
        context = self.context
        with planning(context.database, context.settings.host_name) as cycle_id:
            self.rescuer = Rescuer(context, cycle_id)
            self.rescuer.end_overdue()
            self.rescuer.rescue_lost()
            for step in self.steps:
                step.before_plan()
            idle = Counter[str]() if context.settings.longest_linger else None
            conditions = LaneConditions(idle=idle, expected=self.linger.expected())
            self.planned = plan(context, cycle_id, cycle_id, conditions)
        context.log.write(log_messages.pending_jobs(str(self.planned.counted)))
        log_plan(context, self.planned)
        if not self.planned.runners and not self.planned.counted.pending:
            context.log.write(log_messages.nothing_pending())

    def _supervise(self) -> None:
        """Wait for an event. Plan again when a runner has exited or dropped jobs, or a poll has found due jobs."""
        ended = self.supervisor.wait(self.linger.seconds_to_poll)
        self.context.database.set_deadline(self._statement_deadline())
        with self._contained():
            self.supervisor.start_rejected()
        for each in ended:
            self.rescuer.note_exit(each)
            self.linger.note_exit(each)
        with self._contained():
            self.rescuer.settle_ended()
            has_free_slot = self.reclaim.release_dropped() or bool(ended)
            may_plan = self.supervisor.may_spawn and not self.has_failed
            if may_plan and (has_free_slot or self.waiting_lanes.must_replan or self.linger.finds_work()):
                self._plan_more(has_free_slot)
        for step in self.steps:
            step.on_tick()
        if not self.supervisor.may_spawn:
            self.waiting_lanes.close()

    def conditions(self, has_free_slot: bool = True) -> LaneConditions:
        results = self.rescuer.results
        unserved = results.broken_lanes | self.launch.busy_lanes
        skipped = unserved if has_free_slot else self.linger.lanes_to_skip(unserved)
        idle = self.supervisor.idle_by_lane() if self.context.settings.longest_linger else None
        slow = Counter(runner.lane for runner, _job in self.supervisor.slow_runners())
        return LaneConditions(frozenset(skipped), idle, results.sliced, slow, self.linger.expected())

    def _plan_more(self, has_free_slot: bool) -> None:
        context, cycle_id, conditions = self.context, self.planned.cycle_id, self.conditions(has_free_slot)
        if not has_window(context):
            return
        taken = len(self.waiting_lanes.taken)
        counted = count_work(context)
        seen = make_plan(context, counted, conditions)
        if not seen.runners:
            self.waiting_lanes.offer(cycle_id, seen, taken)
            self.linger.make_room(counted, seen)
            return
        with planning(context.database, context.settings.host_name) as number:
            more = plan(context, number, cycle_id, conditions)
        log_plan(context, more, only_started=True)
        self._start(more, taken)
        self.linger.note_plan()

    def _start(self, planned: Planned, taken: int = 0) -> None:
        """Waiting lanes are offered before a runner can take one."""
        begins_with = interrupted_first(self.context, planned)
        waiting = {lane: jobs[0] for lane, jobs in begins_with.items()} if planned.is_first else None
        self.waiting_lanes.offer(planned.cycle_id, planned.plan, taken, waiting)
        self.supervisor.start(with_first_jobs(planned.assignments, begins_with))
        self.launch.submit(planned.submissions)

    def _statement_deadline(self, is_last: bool = False) -> float:
        """Runners must be killed in time even if the database hangs. Without runners, lingering may take longer."""
        ends_at = self.supervisor.deadline
        if not self.supervisor.alive:
            ends_at = max(ends_at, self.context.lingers_until(self.context.settings.longest_linger))
        is_late = is_last or self.supervisor.guard_fired or monotonic() >= ends_at
        return ends_at + LAST_STATEMENTS_SECONDS if is_late else ends_at

    @contextmanager
    def _contained(self) -> Iterator[None]:
        """Once a runner has started, no error ends the cycle: runners are supervised until they have exited."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - even a bug of ours must not kill healthy runners
            self.has_failed = True
            self.linger.stop()
            self.problems.append(describe(error))
            self.context.log.write(log_messages.cycle_failed(describe(error)))

    def _notes(self) -> Iterator[str]:
        for step in self.steps:
            yield from step.summary_lines()
        if self.planned.plan.paused:
            yield f"Paused lanes: {', '.join(self.planned.plan.paused)}"
        if self.waiting_lanes.served:
            yield f"Lanes served by runners of other lanes: {len(self.waiting_lanes.served)}"
        if self.supervisor.left_running:
            yield f"Left running: {len(self.supervisor.left_running)}"

    def _finish(self) -> CycleSummary:
        """Finish the steps and write the summary; if the database is unreachable by now, that is one more problem."""
        database, cycle_id = self.context.database, self.planned.cycle_id
        pruned, tally = 0, self.rescuer.tally
        with self._contained():
            self.rescuer.settle_ended()
            for step in self.steps:
                step.finish()
            pruned = prune_old_rows(self.context)
            now = database.clock.now()
            tally = database.run(lambda connection: add_up_totals(connection, cycle_id, now))
        summary = CycleSummary(
            cycle_id=cycle_id,
            duration_ms=self.context.duration_ms,
            pending=self.planned.counted.pending,
            is_capped=self.planned.counted.is_capped,
            planned=self.planned.runners,
            ends=self.rescuer.results.ends,
            tally=tally,
            rescued=self.rescuer.rescued,
            repeated=database.repeats + self.rescuer.results.repeats,
            pruned=pruned,
            notes=tuple(self._notes()),
            problems=tuple(dict.fromkeys(self.problems)),
            guard_fired=self.supervisor.guard_fired,
        )
        log_summary(self.context, summary)
        for figures in lane_figures(summary, self.waiting_lanes.served):
            self.context.log.write(log_messages.lane_summary(figures))
        return self._record(summary)

    def _record(self, summary: CycleSummary) -> CycleSummary:
        database, directory = self.context.database, self.context.directory
        try:
            now = database.clock.now()
            database.run(lambda connection: close_cycle(connection, summary.cycle_id, cycle_row(summary), now))
        except MayflyError as error:
            self.context.log.write(log_messages.cycle_failed(str(error)))
            note_unrecorded(directory, host_now(), str(error))
            return summary._replace(problems=tuple(dict.fromkeys((*summary.problems, str(error)))))
        clear_unrecorded(directory)
        return summary
