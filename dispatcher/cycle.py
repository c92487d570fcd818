"""One cycle, readable as the story it is: verify, rescue, schedule, plan, spawn, supervise, linger, prune, sum up."""

import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from dispatcher.assign import Planned, has_whole_window, plan_first, plan_more, tell_plan, with_estimates
from dispatcher.context import LAST_STATEMENTS_SECONDS, CycleContext
from dispatcher.exits import ending_of, would_end_again
from dispatcher.linger import Linger, hand_over
from dispatcher.lock import HostLock
from dispatcher.rescue import Rescuer, tell_ending
from dispatcher.schedules import Scheduled, fire_schedules
from dispatcher.spawn import EndedChild, Spawner
from dispatcher.summary import CycleSummary, RunnerEnd, cycle_row, lane_figures, summary_lines
from dispatcher.supervise import Supervisor, start_refused, start_runners
from mayfly import log_messages
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.errors import MayflyError
from mayfly.fleet.cycles import close_cycle
from mayfly.fleet.dispatchers import Dispatcher, forget_leaving
from mayfly.fleet.plan_lock import planning
from mayfly.process.fork import adopt_orphans
from mayfly.queue.batches import completed_since
from mayfly.queue.prune import keep_from, prune
from mayfly.schema.version import require_version
from mayfly.stats.history import count_cycles
from mayfly.stats.totals import add_up_strays, add_up_totals


@dataclass
class CycleState:
    """What has happened so far in this cycle."""

    ends: list[RunnerEnd] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    broken_lanes: set[str] = field(default_factory=set)  # a runner could not work there: no other one this cycle
    sliced: dict[str, int] = field(default_factory=dict)  # jobs of a lane that go on in the next cycle
    deferred: dict[str, int] = field(default_factory=dict)  # and those that wait for a runner with more time
    unsettled: list[EndedChild] = field(default_factory=list)  # whose jobs could not be written yet
    repeats: int = 0  # transactions that runners had to run again

    def note(self, ended: EndedChild) -> None:
        ending = ending_of(ended.exit)
        lane = ended.assignment.lane
        self.ends.append(RunnerEnd(lane, ending, ended.lived_ms))
        seen = ended.exit.seen
        self.sliced[lane] = max(self.sliced.get(lane, 0), seen.sliced)
        self.deferred[lane] = max(self.deferred.get(lane, 0), seen.deferred)
        self.repeats += seen.repeats
        if would_end_again(ended.exit):
            self.broken_lanes.add(lane)

    def aside(self, world: CycleContext) -> dict[str, int]:
        """Jobs for which a runner that is started now is no help."""
        late = (lane for lane, jobs in self.deferred.items() if jobs and not has_whole_window(world, lane))
        return dict(Counter(self.sliced) + Counter({lane: self.deferred[lane] for lane in late}))


def run_cycle(world: CycleContext, lock: HostLock) -> CycleSummary:
    """The minute, from the first look at the database to the summary."""
    verify(world)
    supervisor = Supervisor(world.deadline, world.settings.dispatch_timeout, world.settings.worker_memory, world.log)
    supervisor.install()
    adopt_orphans()
    lock.sign(Dispatcher(world.process, lingers=world.settings.longest_linger > 0).as_text())
    progress, linger = CycleState(), Linger(world)
    try:
        aftermath, scheduled, planned = rescue_and_plan(world)
        spawner = Spawner(world.settings, world.directory, world.database, (lock.close, supervisor.close_in_child))
        with contained(world, progress, linger):
            spawn(world, spawner, supervisor, planned)
            linger.begin()
        while supervisor.alive or (supervisor.may_spawn and linger.goes_on):
            world.statements.set(statement_deadline(world, supervisor))
            supervise(world, spawner, supervisor, aftermath, planned, progress, linger)
            if supervisor.must_hand_over:
                hand_over(world, lock, supervisor, planned.cycle_id)
        forget_leaving(world.directory, planned.cycle_id)
    finally:
        supervisor.close()
    world.statements.set(statement_deadline(world, supervisor, is_last=True))
    return finish(world, aftermath, scheduled, planned, progress, linger, supervisor)


def statement_deadline(world: CycleContext, supervisor: Supervisor, is_last: bool = False) -> float:
    """Runners are killed in time whatever the database does; without runners, a lingering dispatcher polls on."""
    ends_at = supervisor.deadline
    if not supervisor.alive:
        ends_at = max(ends_at, world.lingers_until(world.settings.longest_linger))
    is_late = is_last or supervisor.guard_fired or monotonic() >= ends_at
    return ends_at + LAST_STATEMENTS_SECONDS if is_late else ends_at


@contextmanager
def contained(world: CycleContext, progress: CycleState, linger: Linger | None = None) -> Iterator[None]:
    """From the first runner on, no error ends the cycle: runners that work are supervised to their end."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - also an error of ours: it must not cost healthy runners their jobs
        if linger is not None:
            linger.end()
        progress.problems.append(describe(error))
        world.log.say(log_messages.cycle_failed(describe(error)))


def describe(error: Exception) -> str:
    """Errors of our own say all in a sentence; of others the place matters too."""
    if isinstance(error, MayflyError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} (in {last.name}, {last.filename}:{last.lineno})"


def verify(world: CycleContext) -> None:
    """One cheap SELECT says whether this is our schema; the first connection says whether it is a server for us."""
    database, log = world.database, world.log
    server = database.read(_verify_server)
    log.say(log_messages.database_verified(server))
    if database.clock.is_skewed:
        log.say(log_messages.clock_skewed(database.clock.offset))


def _verify_server(connection: Connection) -> str:
    connection.dialect.require_skip_locked(connection.raw)
    require_version(connection)
    return str(connection.dialect.server(connection.raw))


def rescue_and_plan(world: CycleContext) -> tuple[Rescuer, Scheduled, Planned]:
    """What dead runners held, and what schedules are due, is pending before anything is counted."""
    with planning(world.database, world.place.host) as cycle_id:
        aftermath = Rescuer(world, cycle_id)
        aftermath.of_lost_runners()
        aftermath.of_batches()
        scheduled = fire_schedules(world)
        planned = plan_first(world, cycle_id)
    world.log.say(log_messages.pending_jobs(str(planned.counted)))
    tell_plan(world, planned)
    if not planned.assignments and not planned.counted.pending:
        world.log.say(log_messages.nothing_pending())
    return aftermath, scheduled, planned


def spawn(world: CycleContext, spawner: Spawner, supervisor: Supervisor, planned: Planned) -> None:
    if planned.assignments:
        world.log.say(log_messages.spawning(len(planned.assignments)))
    start_runners(world, spawner, supervisor, with_estimates(world, planned.assignments))
    supervisor.extend(world.deadline)


def supervise(
    world: CycleContext,
    spawner: Spawner,
    supervisor: Supervisor,
    aftermath: Rescuer,
    planned: Planned,
    progress: CycleState,
    linger: Linger,
) -> None:
    """Wait until something happens. A slot that becomes free goes to whoever has work, and so does one that is."""
    ended = supervisor.wait(linger.seconds)
    with contained(world, progress, linger):
        start_refused(world, spawner, supervisor)
    for each in ended:
        tell_ending(world, each)
        progress.note(each)
    if ended:
        linger.note_end()
    with contained(world, progress, linger):
        settle_ended(aftermath, progress, ended)
        if supervisor.may_spawn and not progress.problems and (ended or linger.sees_work()):
            without = frozenset(progress.broken_lanes) if ended else linger.left_alone(progress.broken_lanes)
            more = plan_more(world, planned.cycle_id, without, linger.idle(supervisor), progress.aside(world))
            if more is not None:
                tell_plan(world, more, only_started=True)
                spawn(world, spawner, supervisor, more)
                linger.note_plan()


def settle_ended(aftermath: Rescuer, progress: CycleState, ended: Sequence[EndedChild] = ()) -> None:
    """The jobs of runners that have ended; what cannot be written now is tried again when the next one ends."""
    progress.unsettled.extend(ended)
    while progress.unsettled:
        aftermath.of_ended(progress.unsettled[0])
        del progress.unsettled[0]


def finish(
    world: CycleContext,
    aftermath: Rescuer,
    scheduled: Scheduled,
    planned: Planned,
    progress: CycleState,
    linger: Linger,
    supervisor: Supervisor,
) -> CycleSummary:
    """Prune, add up, and write the summary; a database that is gone by now is one more problem, not the end."""
    pruned, batches, tally = 0, 0, aftermath.tally
    with contained(world, progress):
        settle_ended(aftermath, progress)
        world.database.run(lambda connection: carry_over(connection, world))
        pruned = prune_old(world)
        tally = world.database.run(lambda connection: add_up_totals(connection, planned.cycle_id))
        batches = count_completed(world)
    summary = CycleSummary(
        cycle_id=planned.cycle_id,
        pending=str(planned.counted),
        planned=len(planned.assignments),
        ends=progress.ends,
        duration_ms=round((monotonic() - world.started) * 1000),
        tally=tally,
        rescued=aftermath.rescued,
        repeated=world.database.repeats + progress.repeats,
        pruned=pruned,
        fired=scheduled.fired,
        left_out=scheduled.left_out,
        paused=planned.plan.paused,
        left_running=len(supervisor.left),
        looks=linger.looks,
        plans=linger.plans,
        batches=batches,
        problems=tuple(dict.fromkeys([*scheduled.problems, *progress.problems])),
        guard_fired=supervisor.guard_fired,
    )
    tell_summary(world, summary)
    record(world, summary)
    return summary


def prune_old(world: CycleContext) -> int:
    """Rows are deleted by the database's clock as it is now: one that was just set may be wrong."""
    database = world.database
    if step := database.clock.wall_clock_step():
        world.log.say(log_messages.wall_clock_set(step))
    if step := database.refresh_clock():
        world.log.say(log_messages.prune_skipped(step))
        return 0
    pruned = prune(database, keep_from(world.settings))
    if pruned:
        world.log.say(log_messages.pruned(pruned))
    return pruned


def carry_over(connection: Connection, world: CycleContext) -> None:
    """What only ever grows is counted before the rows that it is counted from are pruned."""
    now = world.database.clock.now()
    add_up_strays(connection, now)
    count_cycles(connection, now, world.settings.keep_cycles_days)


def count_completed(world: CycleContext) -> int:
    """Batches that are over since this cycle began, whoever has seen it."""
    began_at = world.database.clock.now() - timedelta(seconds=monotonic() - world.started)
    return world.database.read(lambda connection: completed_since(connection, began_at))


def tell_summary(world: CycleContext, summary: CycleSummary) -> None:
    for line in summary_lines(summary):
        world.log.say(log_messages.summary_line(line))
    for figures in lane_figures(summary):
        world.log.say(log_messages.lane_summary(figures))


def record(world: CycleContext, summary: CycleSummary) -> None:
    database = world.database
    try:
        now = database.clock.now()
        database.run(lambda connection: close_cycle(connection, summary.cycle_id, cycle_row(summary), now))
    except MayflyError as error:
        world.log.say(log_messages.cycle_failed(str(error)))
    finally:
        database.close()
