"""From the table to assignments: count, plan, and write the plan down before anybody is started."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count, groupby
from types import MappingProxyType

from dispatcher.context import CycleContext
from dispatcher.plan import LaneCount, LaneRules, Plan, measure, plan_runners, slots
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.fleet.cycles import KnownLane, known_lanes, open_cycle, record_passed_over
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import Assignment, add_planned, live_by_lane, live_on_host
from mayfly.job import WHOLE_WINDOW
from mayfly.process.timing import timing
from mayfly.queue.count import COUNT_AT_LEAST, Due, count_due, first_released
from mayfly.queue.pauses import Pause, load_pauses
from mayfly.queue.rescue import long_lease

NO_RUNNERS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class CountedWork:
    """What the table said: the ground of a plan."""

    due: tuple[Due, ...] = ()
    running: Mapping[str, int] = field(default_factory=dict)
    running_here: int = 0
    lanes: Mapping[str, KnownLane] = field(default_factory=dict)
    paused: Mapping[str, Pause] = field(default_factory=dict)  # lanes

    @property
    def pending(self) -> int:
        return sum(each.pending for each in self.due)

    def plus(self, coming: Mapping[str, int]) -> "CountedWork":
        """As it will be when this many more jobs are due in these lanes."""
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


def plan_first(world: CycleContext, cycle_id: int) -> Planned:
    """The plan a cycle begins with; the caller holds the planning lock."""
    return _plan(world, cycle_id, cycle_id, idle=NO_RUNNERS if world.settings.longest_linger else None)


def plan_more(
    world: CycleContext,
    cycle_id: int,
    without: frozenset[str],
    idle: Mapping[str, int] | None = None,
    aside: Mapping[str, int] = NO_RUNNERS,
) -> Planned | None:
    """A slot was freed, or work has come: plan again, if a lane has work and there is time for it."""
    if runner_deadline(world) - monotonic() < timing().min_window_seconds:
        return None
    counted = world.database.read(lambda connection: count_work(connection, world))
    if not make_plan(world, counted, without, idle, aside).runners:
        return None
    with planning(world.database, world.place.host) as number:
        return _plan(world, number, cycle_id, without, idle, aside)


def read_plan(world: CycleContext, coming: Mapping[str, int] = NO_RUNNERS) -> tuple[CountedWork, Plan]:
    """The plan as it would be, without a lock and without a trace: --dry-run."""
    counted = world.database.read(lambda connection: count_work(connection, world)).plus(coming)
    return counted, make_plan(world, counted)


def count_work(connection: Connection, world: CycleContext) -> CountedWork:
    lanes = known_lanes(connection)

    def cap_of(lane: str) -> int:
        planned = _lane(world, lane, lanes.get(lane, KnownLane()))
        return max(planned.batch_size * planned.max_workers, COUNT_AT_LEAST)

    now = world.database.clock.now()
    return CountedWork(
        due=tuple(count_due(connection, now, cap_of)),
        running=live_by_lane(connection),
        running_here=live_on_host(connection, world.place.host),
        lanes=lanes,
        paused=load_pauses(connection, now).lanes,
    )


def make_plan(
    world: CycleContext,
    counted: CountedWork,
    without: frozenset[str] = frozenset(),
    idle: Mapping[str, int] | None = None,
    aside: Mapping[str, int] = NO_RUNNERS,
) -> Plan:
    """Lanes that are not served now are planned with nothing pending: what they run still fills their pools.

    What was put aside waits for the next cycle, and is no reason to start anybody.
    `idle` are the runners that wait for work, where that is known: all others are busy for as long as we can tell.
    """
    due = {each.lane: each for each in counted.due}
    counts = []
    for name in sorted({*due, *counted.running}):
        found = due.get(name, Due(name, 0, capped=False))
        served = world.serves(name) and name not in without
        running = counted.running.get(name, 0)
        known = counted.lanes.get(name, KnownLane())
        counts.append(
            LaneCount(
                lane=_lane(world, name, known, counted.paused.get(name)),
                pending=max(0, found.pending - aside.get(name, 0)) if served else 0,
                running=running,
                busy=_busy(world, name, running, idle),
                capped=found.capped,
                passed_over=known.passed_over,
            )
        )
    settings = world.settings
    room = slots(
        measure(),
        host_max_workers=settings.host_max_workers,
        running_here=counted.running_here,
        min_free_memory=settings.min_free_memory,
        max_load=settings.max_load,
    )
    return plan_runners(counts, settings.pools, room)


def _busy(world: CycleContext, lane: str, running: int, idle: Mapping[str, int] | None) -> int:
    """A runner in a long lane may be so for hours."""
    if idle is None:
        return running if world.settings.lane(lane).is_long else 0
    return max(0, running - idle.get(lane, 0))


def runner_deadline(world: CycleContext) -> float:
    """A runner's guard counts from its start; one that starts late must still be gone in time."""
    settings = world.settings
    reserve = min(2.0, (settings.dispatch_timeout - settings.worker_timeout) / 2)
    return min(monotonic() + settings.worker_timeout, world.deadline - reserve)


def has_whole_window(world: CycleContext, lane: str) -> bool:
    """Whether a runner that were started now would have all the time that one can have."""
    resolved = world.settings.lane(lane)
    return resolved.is_long or runner_deadline(world) - monotonic() >= WHOLE_WINDOW * resolved.worker_timeout


def _plan(
    world: CycleContext,
    number: int,
    cycle_id: int,
    without: frozenset[str] = frozenset(),
    idle: Mapping[str, int] | None = None,
    aside: Mapping[str, int] = NO_RUNNERS,
) -> Planned:
    counted = world.database.read(lambda connection: count_work(connection, world))
    plan = make_plan(world, counted, without, idle, aside)
    now = world.database.clock.now()
    assignments = tuple(_assign(world, plan, number, cycle_id, now))
    waiting = plan.passed_over()

    def write(connection: Connection) -> None:
        finish_planning(connection, number)
        if number == cycle_id:
            open_cycle(connection, cycle_id, world.place.host, now)
        add_planned(connection, assignments, world.place, world.process, now)
        record_passed_over(connection, counted.lanes, waiting)

    world.database.run(write)
    return Planned(cycle_id, counted, plan, assignments)


def _assign(world: CycleContext, plan: Plan, number: int, cycle_id: int, now: datetime) -> Iterator[Assignment]:
    deadline = runner_deadline(world)
    lease_left = world.deadline - monotonic() + timing().lease_grace_seconds
    numbers = count(1)
    for planned in plan.lanes:
        resolved = world.settings.lane(planned.count.lane.name)
        # No cycle has more for a job than its first plan, however late that is.
        is_whole = number == cycle_id or has_whole_window(world, planned.count.lane.name)
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
                stays_until=_stays_until(world, planned.count.lane.name, deadline),
                is_whole=is_whole,
            )


def _stays_until(world: CycleContext, lane: str, deadline: float) -> float:
    """0 in a lane that does not linger. What comes late gets a fresh runner rather than the rest of a window."""
    linger = world.settings.lane(lane).linger
    return min(world.lingers_until(linger), deadline - world.settings.worker_timeout / 2) if linger else 0.0


def _lane(world: CycleContext, name: str, known: KnownLane, pause: Pause | None = None) -> LaneRules:
    """What somebody set by hand holds on every host, whatever its settings say."""
    resolved = world.settings.lane(name)
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


def tell_plan(world: CycleContext, planned: Planned, only_started: bool = False) -> None:
    for each in planned.plan.lanes:
        if each.planned or (not only_started and (each.wanted or each.cuts)):
            lane = each.count.lane
            pending = f"{each.count.pending}+" if each.count.capped else str(each.count.pending)
            world.log.say(
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


def with_estimates(world: CycleContext, assignments: Sequence[Assignment]) -> list[Assignment]:
    """Outside of the planning lock: nobody else has to wait for this."""
    told: list[Assignment] = []
    for lane, some in groupby(assignments, key=lambda each: each.lane):
        first, *others = (replace(each, usual=world.usual.of(lane)) for each in some)
        told += [_with_first(world, first), *others]
    return told


def _with_first(world: CycleContext, assignment: Assignment) -> Assignment:
    """One runner begins with the oldest job that was deferred, whatever its priority: so none waits for ever."""
    lane = assignment.lane
    if not assignment.is_whole or not assignment.usual or lane not in world.usual.deferred:
        return assignment
    now, types = world.database.clock.now(), assignment.usual.keys()
    found = world.database.read(lambda connection: first_released(connection, lane, types, now))
    return replace(assignment, begins_with=found)
