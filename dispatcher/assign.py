"""From the jobs table to assignments: count, plan, and record the plan before any runner is started."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count, groupby, zip_longest
from types import MappingProxyType

from dispatcher.context import CycleContext
from dispatcher.plan import LaneCount, LaneRules, Plan, measure, plan_runners, slots
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.fleet.cycles import KnownLane, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import Assignment, add_planned, live_by_lane, live_on_host
from mayfly.job import FULL_WINDOW
from mayfly.process.timing import timing
from mayfly.queue.count import COUNT_AT_LEAST, Due, count_due, interrupted_jobs
from mayfly.queue.pauses import Pause, load_pauses
from mayfly.queue.rescue import long_lease

NO_RUNNERS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class CountedWork:
    """What was read from the tables: the input of a plan."""

    due: tuple[Due, ...] = ()
    running: Mapping[str, int] = field(default_factory=dict)
    running_here: int = 0
    lanes: Mapping[str, KnownLane] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)  # lanes

    @property
    def pending(self) -> int:
        return sum(each.pending for each in self.due)

    def plus(self, coming: Mapping[str, int]) -> "CountedWork":
        """With this many more jobs due in these lanes."""
        found = {each.lane: each for each in self.due}
        lanes = sorted({*found, *coming})
        due = (found.get(lane, Due(lane, 0, capped=False)).plus(coming.get(lane, 0)) for lane in lanes)
        return replace(self, due=tuple(due))

    def __str__(self) -> str:
        return f"{self.pending}+" if any(each.capped for each in self.due) else str(self.pending)


@dataclass(frozen=True)
class Planned:
    cycle_id: int
    counted: CountedWork
    plan: Plan
    assignments: tuple[Assignment, ...]
    is_first: bool  # of its cycle: no later plan has more time for a job


def plan_first(context: CycleContext, cycle_id: int) -> Planned:
    """The plan a cycle begins with; the caller holds the planning lock."""
    return _plan(context, cycle_id, cycle_id, idle=NO_RUNNERS if context.settings.longest_linger else None)


def plan_more(
    context: CycleContext,
    cycle_id: int,
    without: frozenset[str],
    idle: Mapping[str, int] | None = None,
    sliced: Mapping[str, int] = NO_RUNNERS,
) -> Planned | None:
    """A slot is free, or there is new work: plan again, if a lane has work and there is time for it."""
    if runner_deadline(context) - monotonic() < timing().min_window_seconds:
        return None
    counted = context.database.read(lambda connection: count_work(connection, context))
    if not make_plan(context, counted, without, idle, sliced).runners:
        return None
    with planning(context.database, context.host.name) as number:
        return _plan(context, number, cycle_id, without, idle, sliced)


def read_plan(context: CycleContext, coming: Mapping[str, int] = NO_RUNNERS) -> tuple[CountedWork, Plan]:
    """The plan of --dry-run: without the lock, and nothing is written."""
    counted = context.database.read(lambda connection: count_work(connection, context)).plus(coming)
    return counted, make_plan(context, counted)


def count_work(connection: Connection, context: CycleContext) -> CountedWork:
    lanes = known_lanes(connection)

    def cap_of(lane: str) -> int:
        planned = _lane(context, lane, lanes.get(lane, KnownLane()))
        return max(planned.batch_size * planned.max_workers, COUNT_AT_LEAST)

    now = context.database.clock.now()
    return CountedWork(
        due=tuple(count_due(connection, now, cap_of)),
        running=live_by_lane(connection),
        running_here=live_on_host(connection, context.host.name),
        lanes=lanes,
        paused=load_pauses(connection, now).lanes,
    )


def make_plan(
    context: CycleContext,
    counted: CountedWork,
    without: frozenset[str] = frozenset(),
    idle: Mapping[str, int] | None = None,
    sliced: Mapping[str, int] = NO_RUNNERS,
) -> Plan:
    """Lanes that are not served now are planned with nothing pending: their runners still count in their pools.

    Sliced jobs wait for the next cycle and need no runner now.
    `idle` has the runners that wait for work, where that is known: all others count as busy.
    """
    due = {each.lane: each for each in counted.due}
    counts = []
    for name in sorted({*due, *counted.running}):
        found = due.get(name, Due(name, 0, capped=False))
        served = context.serves(name) and name not in without
        running = counted.running.get(name, 0)
        known = counted.lanes.get(name, KnownLane())
        counts.append(
            LaneCount(
                lane=_lane(context, name, known, counted.paused.get(name)),
                pending=max(0, found.pending - sliced.get(name, 0)) if served else 0,
                running=running,
                busy=_busy(context, name, running, idle),
                capped=found.capped,
                passed_over=known.passed_over,
            )
        )
    settings = context.settings
    room = slots(
        measure(),
        host_max_workers=settings.host_max_workers,
        running_here=counted.running_here,
        min_free_memory=settings.min_free_memory,
        max_load=settings.max_load,
    )
    return plan_runners(counts, settings.pools, room)


def _busy(context: CycleContext, lane: str, running: int, idle: Mapping[str, int] | None) -> int:
    """A runner in a long lane may be busy for hours."""
    if idle is None:
        return running if context.settings.lane(lane).is_long else 0
    return max(0, running - idle.get(lane, 0))


def runner_deadline(context: CycleContext) -> float:
    """A runner's guard counts from its start; a late one must still exit before the dispatcher's guard."""
    settings = context.settings
    reserve = min(2.0, (settings.dispatch_timeout - settings.worker_timeout) / 2) + timing().finish_seconds
    return min(monotonic() + settings.worker_timeout, context.deadline - reserve)


def has_full_window(context: CycleContext, lane: str) -> bool:
    """Whether a runner that starts now has as much time for a job as any runner can have."""
    resolved = context.settings.lane(lane)
    return resolved.is_long or runner_deadline(context) - monotonic() >= FULL_WINDOW * resolved.worker_timeout


def _plan(
    context: CycleContext,
    number: int,
    cycle_id: int,
    without: frozenset[str] = frozenset(),
    idle: Mapping[str, int] | None = None,
    sliced: Mapping[str, int] = NO_RUNNERS,
) -> Planned:
    counted = context.database.read(lambda connection: count_work(connection, context))
    plan = make_plan(context, counted, without, idle, sliced)
    now = context.database.clock.now()
    assignments = tuple(_assign(context, plan, number, cycle_id, now))
    waiting = plan.passed_over()

    def write(connection: Connection) -> None:
        finish_planning(connection, number)
        if number == cycle_id:
            open_cycle(connection, cycle_id, context.host.name, now)
        add_planned(connection, assignments, context.host, context.process, now)
        record_passed_over(connection, counted.lanes, waiting)

    context.database.run(write)
    return Planned(cycle_id, counted, plan, assignments, is_first=number == cycle_id)


def _assign(context: CycleContext, plan: Plan, number: int, cycle_id: int, now: datetime) -> Iterator[Assignment]:
    deadline = runner_deadline(context)
    lease_left = context.deadline - monotonic() + timing().lease_grace_seconds
    numbers = count(1)
    for planned in plan.lanes:
        resolved = context.settings.lane(planned.count.lane.name)
        for _ in range(planned.planned):
            window, is_long = resolved.worker_timeout, resolved.is_long
            yield Assignment(
                worker_id=f"worker-{number}-{next(numbers)}",
                lane=planned.count.lane.name,
                cycle_id=cycle_id,
                deadline=monotonic() + window if is_long else min(deadline, monotonic() + window),
                window_seconds=window,
                lease_until=now + (long_lease() if is_long else timedelta(seconds=lease_left)),
                is_long=is_long,
                stays_until=_stays_until(context, planned.count.lane.name, deadline),
            )


def _stays_until(context: CycleContext, lane: str, deadline: float) -> float:
    """0 in a lane that does not linger. Late jobs get a new runner rather than the rest of a window."""
    linger = context.settings.lane(lane).linger
    return min(context.lingers_until(linger), deadline - context.settings.worker_timeout / 2) if linger else 0.0


def _lane(context: CycleContext, name: str, known: KnownLane, pause: Pause | None = None) -> LaneRules:
    """A limit that an operator has set applies on every host and overrides the settings."""
    resolved = context.settings.lane(name)
    return LaneRules(
        name,
        resolved.batch_size,
        known.max_workers or resolved.max_workers,
        resolved.min_workers,
        resolved.rank,
        resolved.pool,
        resolved.external,
        pause.words if pause else None,
        known.set_by,
    )


def log_plan(context: CycleContext, planned: Planned, only_started: bool = False) -> None:
    for each in planned.plan.lanes:
        if each.planned or (not only_started and (each.wanted or each.cuts)):
            lane = each.count.lane
            pending = f"{each.count.pending}+" if each.count.capped else str(each.count.pending)
            context.log.say(
                log_messages.workers_calculated(
                    lane.name,
                    each.planned,
                    pending,
                    lane.batch_size,
                    lane.max_workers,
                    each.count.running,
                    each.cuts,
                )
            )


def begin_with_interrupted(context: CycleContext, planned: Planned) -> list[Assignment]:
    """Give each fresh runner with a full window one job that a guard has interrupted, as its first.

    Whatever its priority, so that it is not interrupted again behind others. Outside of the planning lock.
    """
    assigned: list[Assignment] = []
    for lane, group in groupby(planned.assignments, key=lambda each: each.lane):
        runners = list(group)
        is_full = planned.is_first or has_full_window(context, lane)
        waiting = _interrupted(context, lane, len(runners)) if is_full else []
        assigned += (replace(each, begins_with=job_id) for each, job_id in zip_longest(runners, waiting))
    return assigned


def _interrupted(context: CycleContext, lane: str, count: int) -> list[int]:
    now = context.database.clock.now()
    return context.database.read(lambda connection: interrupted_jobs(connection, lane, now, count))
