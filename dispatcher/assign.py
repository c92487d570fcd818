"""Turn due jobs into assignments: count, plan, and record the plan before any runner is started."""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from dispatcher.context import CycleContext
from dispatcher.lane_figures import MAX_LANES_LOGGED
from dispatcher.waiting_lanes import shared_settings
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.errors import SourceUnusable
from mayfly.fleet.cycles import KnownLane, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.launchers import log_file
from mayfly.fleet.plan import LaneCount, Plan, PlannedLane, lane_rules, measure, plan_runners, slots
from mayfly.fleet.plan_lock import finish_planning
from mayfly.fleet.runners import Assignment, add_planned, live_by_lane_and_on_host
from mayfly.fleet.submitted import RefusedSubmit, Submission, add_submitted, queued_by_lane, refusals
from mayfly.job import FULL_WINDOW
from mayfly.process import timing
from mayfly.queue.count import DEFAULT_COUNT_CAP, Due, count_due, interrupted_jobs
from mayfly.queue.pauses import Pause, load_pauses
from mayfly.queue.rescue import long_lease

if TYPE_CHECKING:
    from mayfly.queue.sources import Sources


@dataclass(frozen=True)
class CountedWork:
    """The input of a plan, read from the tables."""

    due: tuple[Due, ...] = ()
    running: Mapping[str, int] = field(default_factory=dict)
    running_here: int = 0
    lanes: Mapping[str, KnownLane] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)  # lanes
    queued: Mapping[str, int] = field(default_factory=dict)  # of the running ones: they wait in an engine's queue
    refused: Mapping[str, RefusedSubmit] = field(default_factory=dict)  # lanes whose last submit was refused

    @property
    def pending(self) -> int:
        return sum(each.pending for each in self.due)

    @property
    def is_capped(self) -> bool:
        return any(each.capped for each in self.due)

    def plus(self, coming: Mapping[str, int]) -> "CountedWork":
        """Adds jobs that will be due in these lanes."""
        found = {each.lane: each for each in self.due}
        lanes = sorted({*found, *coming})
        due = (found.get(lane, Due(lane, 0, capped=False)).plus(coming.get(lane, 0)) for lane in lanes)
        return replace(self, due=tuple(due))

    def plus_rows(self, rows: Mapping[str, int], cap_of: Callable[[str], int]) -> "CountedWork":
        """Adds due rows of sources, up to the cap of each lane."""
        if not rows:
            return self
        total = self.plus(rows)
        due = (each._replace(pending=min(each.pending, cap_of(each.lane))) for each in total.due)
        is_capped = {each.lane: each.capped or each.pending > cap_of(each.lane) for each in total.due}
        return replace(self, due=tuple(each._replace(capped=is_capped[each.lane]) for each in due))

    def __str__(self) -> str:
        return f"{self.pending}+" if self.is_capped else str(self.pending)


@dataclass(frozen=True)
class LaneConditions:
    """The state of the lanes during a cycle, for its further plans."""

    skipped: frozenset[str] = frozenset()  # lanes that get no runners
    idle: Mapping[str, int] | None = None  # runners that wait for work; None: unknown
    sliced: Mapping[str, int] = field(default_factory=dict)  # jobs that continue in the next cycle: no runner needed
    slow: Mapping[str, int] = field(default_factory=dict)  # runners that are busy with a slow job
    expected: frozenset[str] = frozenset()  # lanes that get a runner even if they are empty: jobs will arrive soon


@dataclass(frozen=True)
class Planned:
    cycle_id: int
    counted: CountedWork
    plan: Plan
    assignments: tuple[Assignment, ...]
    is_first: bool  # plan of its cycle, which has the most time for a job
    submissions: tuple[Submission, ...] = ()  # runners that launchers start

    @property
    def runners(self) -> int:
        return len(self.assignments) + len(self.submissions)


def plan(context: CycleContext, number: int, cycle_id: int, conditions: LaneConditions) -> Planned:
    """Count, plan, and write the plan; the caller holds the planning lock. For the first, `number` is `cycle_id`."""
    counted = count_work(context)
    planned = make_plan(context, counted, conditions)
    now = context.database.clock.now()
    assignments = tuple(_assign(context, planned, number, cycle_id, now))
    submissions = tuple(_submit(context, planned, number, cycle_id, now))

    def write(connection: Connection) -> None:
        finish_planning(connection, number)
        if number == cycle_id:
            open_cycle(connection, cycle_id, context.host.name, now)
        add_planned(connection, assignments, context.host, context.process, now)
        add_submitted(connection, submissions, now)
        record_passed_over(connection, counted.lanes, planned.passed_over())

    context.database.run(write)
    return Planned(cycle_id, counted, planned, assignments, number == cycle_id, submissions)


def count_work(context: CycleContext) -> CountedWork:
    now = context.database.clock.now()

    def read(connection: Connection) -> tuple[CountedWork, Container[str]]:
        lanes, pauses = known_lanes(connection), load_pauses(connection, now)
        running, running_here = live_by_lane_and_on_host(connection, context.host)
        counted = CountedWork(
            due=tuple(count_due(connection, now, partial(_count_cap, context, lanes))),
            running=running,
            running_here=running_here,
            lanes=lanes,
            paused=pauses.lanes,
            queued=queued_by_lane(connection) if context.settings.launchers else {},
            refused=refusals(connection, now) if context.settings.launchers else {},
        )
        return counted, pauses.types

    counted, paused_types = context.database.read(read)
    if context.sources is None:
        return counted
    cap_of = partial(_count_cap, context, counted.lanes)
    return counted.plus_rows(_due_rows(context, context.sources, now, paused_types, cap_of), cap_of)


def _count_cap(context: CycleContext, lanes: Mapping[str, KnownLane], lane: str) -> int:
    rules = lane_rules(context.settings, lane, lanes.get(lane, KnownLane()))
    return max(rules.batch_size * rules.max_workers, DEFAULT_COUNT_CAP)


def _due_rows(
    context: CycleContext, sources: "Sources", now: datetime, paused: Container[str], cap_of: Callable[[str], int]
) -> Mapping[str, int]:
    """By lane: due rows of sources whose type is not paused and whose rows can be claimed."""
    from mayfly.queue.source_trial import try_claim  # most installations have no sources
    from mayfly.queue.sources import count_by_source  # the same

    tables = [each for each in context.usable_sources if each.source.type not in paused]
    rows, problems = context.database.read(
        lambda connection: count_by_source(connection, sources, tables, now, cap_of)
    )
    for each in problems:
        context.note_source_problem(each)
    by_lane: Counter[str] = Counter()
    for name, number in rows.items():
        table = sources.tables[name]
        try:
            if name not in context.tried_sources and try_claim(context.database, sources, table):
                context.tried_sources.add(name)
            by_lane[table.source.lane] += number
        except SourceUnusable as error:
            context.note_source_problem(error)
    return by_lane


def make_plan(context: CycleContext, counted: CountedWork, conditions: LaneConditions) -> Plan:
    """A lane that is not served now has no pending jobs in the plan, but its runners still count in its pool."""
    due = {each.lane: each for each in counted.due}
    counts = []
    for name in sorted({*due, *counted.running}):
        found = due.get(name, Due(name, 0, capped=False))
        is_served = context.serves(name) and name not in conditions.skipped
        running = counted.running.get(name, 0)
        known = counted.lanes.get(name, KnownLane())
        rules = lane_rules(context.settings, name, known, counted.paused.get(name))
        if conditions.idle is not None and rules.launcher is None:
            busy = max(0, running - conditions.idle.get(name, 0))
        else:  # a runner in a long lane may be busy for hours
            started = running - counted.queued.get(name, 0)
            busy = started if context.settings.lane(name).is_long else conditions.slow.get(name, 0)
        counts.append(
            LaneCount(
                lane=rules,
                pending=max(0, found.pending - conditions.sliced.get(name, 0)) if is_served else 0,
                running=running,
                busy=busy,
                capped=found.capped,
                passed_over=known.passed_over,
                expects_jobs=is_served and name in conditions.expected,
                queued=counted.queued.get(name, 0),
                refused=counted.refused[name].reason if name in counted.refused else None,
            )
        )
    room = slots(measure(), context.settings, counted.running_here)
    return plan_runners(counts, context.settings.pools, room)


def runner_deadline(context: CycleContext) -> float:
    """A runner has WORKER_TIMEOUT from its start, but must exit before the dispatcher's guard fires."""
    settings = context.settings
    reserve = min(2.0, (settings.dispatch_timeout - settings.worker_timeout) / 2) + timing().finish_seconds
    return min(monotonic() + settings.worker_timeout, context.deadline - reserve)


def has_window(context: CycleContext) -> bool:
    """Whether a runner that starts now would have enough time."""
    return runner_deadline(context) - monotonic() >= timing().min_window_seconds


def _assign(context: CycleContext, plan: Plan, number: int, cycle_id: int, now: datetime) -> Iterator[Assignment]:
    settings, deadline = context.settings, runner_deadline(context)
    lease = timedelta(seconds=context.deadline - monotonic() + timing().lease_grace_seconds)
    numbers = count(1)
    waiting = {shared_settings(settings, each.count.lane.name) for each in plan.waiting}
    for planned in _of_this_host(plan):
        lane = settings.lane(planned.count.lane.name)
        window_end = monotonic() + lane.worker_timeout
        shares = shared_settings(settings, lane.name)
        # Jobs that arrive late get a new runner, not the rest of a window.
        stays_until = min(context.lingers_until(lane.linger), deadline - settings.worker_timeout / 2)
        for _ in range(planned.planned):
            yield Assignment(
                worker_id=f"worker-{number}-{next(numbers)}",
                lane=lane.name,
                cycle_id=cycle_id,
                deadline=window_end if lane.is_long else min(deadline, window_end),
                window_seconds=lane.worker_timeout,
                lease_until=now + (long_lease() if lane.is_long else lease),
                is_long=lane.is_long,
                stays_until=stays_until if lane.linger else 0.0,
                shares=shares if shares in waiting else None,
            )


def _of_this_host(plan: Plan) -> list[PlannedLane]:
    return [each for each in plan.lanes if each.count.lane.launcher is None]


def _submit(context: CycleContext, plan: Plan, number: int, cycle_id: int, now: datetime) -> Iterator[Submission]:
    """Their numbers follow those of this host's runners."""
    settings = context.settings
    numbers = count(1 + sum(each.planned for each in _of_this_host(plan)))
    for planned in plan.lanes:
        lane = planned.count.lane
        if lane.launcher is None:
            continue
        launcher = settings.launchers[lane.launcher]
        for _ in range(planned.planned):
            worker_id = f"worker-{number}-{next(numbers)}"
            yield Submission(
                worker_id=worker_id,
                lane=lane.name,
                cycle_id=cycle_id,
                launcher=launcher.name,
                start_by=now + timedelta(seconds=launcher.start_timeout),
                log_file=log_file(settings, launcher, worker_id),
            )


def log_plan(context: CycleContext, planned: Planned, only_started: bool = False) -> None:
    """One line per lane; of very many lanes without runners only the first ones."""
    lanes = planned.plan.lanes
    started = [each for each in lanes if each.planned]
    others = [] if only_started else [each for each in lanes if not each.planned and (each.wanted or each.cuts)]
    for each in (*started, *others[:MAX_LANES_LOGGED]):
        lane, found = each.count.lane, each.count
        figures = (found.pending_text, lane.batch_size, lane.max_workers, found.running)
        context.log.write(log_messages.workers_calculated(lane.name, each.planned, *figures, each.cuts))
    if len(others) > MAX_LANES_LOGGED:
        context.log.write(log_messages.more_lanes_wait(len(others) - MAX_LANES_LOGGED))


def interrupted_first(context: CycleContext, planned: Planned) -> dict[str, list[int]]:
    """By lane: jobs that a guard has interrupted, as many as the lane has runners with a full window.

    Each is the first job of a runner: behind other jobs it might be interrupted again. Called after the planning lock
    was released.
    """
    settings = context.settings
    runners = Counter(each.lane for each in planned.assignments)
    if planned.is_first:
        runners.update(each.count.lane.name for each in planned.plan.waiting)
    left = runner_deadline(context) - monotonic()
    wanted = {
        lane: number
        for lane, number in runners.items()
        if planned.is_first or settings.lane(lane).is_long or left >= settings.lane(lane).worker_timeout * FULL_WINDOW
    }
    now = context.database.clock.now()
    return context.database.read(lambda connection: interrupted_jobs(connection, wanted, now)) if wanted else {}


def with_first_jobs(assignments: Iterable[Assignment], first_jobs: Mapping[str, Sequence[int]]) -> list[Assignment]:
    jobs = {lane: iter(found) for lane, found in first_jobs.items()}
    return [replace(each, begins_with=next(jobs.get(each.lane, iter(())), None)) for each in assignments]
