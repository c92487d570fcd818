"""`python -m runner`: started by a dispatcher with SPAWN=exec, or manually to run some lanes."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType

import click

from mayfly import log_messages, schema
from mayfly.clock import monotonic
from mayfly.db.connection import Connection
from mayfly.db.database import Database
from mayfly.errors import LaneIsExternal, MayflyError
from mayfly.fleet.cycles import KnownLane, known_lanes
from mayfly.fleet.plan import LaneCount, PlannedLane, lane_rules, measure, plan_runners, slots
from mayfly.fleet.plan_lock import finish_planning, planning
from mayfly.fleet.runners import Assignment, EndedRunner, add_planned, close_runner, live_by_lane_and_on_host
from mayfly.fleet.submitted import take_over_submitted
from mayfly.format import plural
from mayfly.log import Log, open_log
from mayfly.process import exits, timing
from mayfly.process.fork import STOPS, die_with_parent, forget_signals, fork_into, stop_signals_held
from mayfly.process.identity import Process, process_usage, start_time, this_host, this_process
from mayfly.process.state_dir import open_state_dir, page_path
from mayfly.process.status_page import StatusPage
from mayfly.queue.count import interrupted_jobs
from mayfly.queue.pauses import load_pauses
from mayfly.queue.rescue import long_lease
from mayfly.settings import ResolvedLane, Settings, load_settings
from runner.lease_keeper import run_with_keeper
from runner.main import Inherited, run_runner


def run_assigned(
    assignment: Assignment, settings: Settings, directory: Path, output: int, inherited: Inherited | None = None
) -> int:
    """Run a runner that a dispatcher started. Output of handlers goes to the dispatcher."""
    log = inherited.log if inherited else None
    log = (log or print_to(output, settings)).named(f"WORKER {assignment.worker_id}")
    page = StatusPage(page_path(directory, assignment.worker_id))
    for each in (1, 2):
        os.dup2(output, each)
    return _run(assignment, settings, page, log, inherited)


def _run(
    assignment: Assignment, settings: Settings, page: StatusPage, log: Log, inherited: Inherited | None = None
) -> int:
    """In a long lane, or from a launcher, with a lease keeper; such a runner closes its own row."""
    if not assignment.has_keeper:
        return run_runner(assignment, settings, page, log, inherited)
    database = inherited.database if inherited else schema.open_database(settings)
    database.close()

    def run() -> int:
        code = run_runner(assignment, settings, page, log, inherited)
        with suppress(MayflyError):  # if the database is unreachable, the next cycle finds the status page
            close_own_row(database, assignment.worker_id, page, code)  # the dispatcher may have exited already
        return code

    memory_limit = settings.lane(assignment.lane).worker_memory
    return run_with_keeper(assignment, run, page, database, log, memory_limit)


def print_to(output: int, settings: Settings) -> Log:
    """Redirect stdin from /dev/null and output to the dispatcher; returns the log."""
    os.dup2(output, 2)  # before the log is opened: if that fails, the dispatcher has reported it already
    log = open_log(settings, "WORKER")  # before stdout is replaced: stdout may be the log
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    return log


@click.command(
    help="Run the due jobs of a lane in this process.\n\nIt ends when the lane is empty, or when its time is up."
)
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    default=["default"],
    show_default=True,
    metavar="NAME",
    help="The lane; if repeated, one after the other.",
)
@click.option("--worker", metavar="ID", help="Passed by a launcher: the runner that a dispatcher has planned.")
@click.option("--assignment", hidden=True, help="Passed by the dispatcher: the assignment as JSON.")
@click.option("--output", type=int, hidden=True, help="Passed by the dispatcher: descriptor for printed text.")
@click.option("--parent", type=int, hidden=True, help="Passed by the dispatcher: its pid.")
def command(
    lanes: tuple[str, ...], worker: str | None, assignment: str | None, output: int | None, parent: int | None
) -> int:
    settings = load_settings()
    if worker is not None:
        return run_submitted(settings, worker)
    if assignment is None or output is None or parent is None:
        return run_manually(settings, list(dict.fromkeys(lanes)))
    assigned = Assignment.from_text(assignment)
    if not assigned.is_long:
        die_with_parent(parent)
    return run_assigned(assigned, settings, open_state_dir(settings), output)


# --- started by a launcher --------------------------------------------------------------------------------


def run_submitted(settings: Settings, worker_id: str) -> int:
    """Take over the row that a dispatcher has written. Without it, exit: another process has it, or came first."""
    # The engine keeps it. A descriptor of its own: the runner redirects stderr to its lease keeper.
    echo = None if settings.log_to == "stdout" else os.fdopen(os.dup(2), "w", errors="backslashreplace")
    log = open_log(settings, f"WORKER {worker_id}", echo=echo)
    database = schema.open_database(settings)
    host, process, now = this_host(settings.host_name), this_process(), database.clock.now()
    lease = now + long_lease()
    taken = database.run(lambda connection: take_over_submitted(connection, worker_id, host, process, now, lease))
    if isinstance(taken, str):
        log.write(log_messages.not_taken_over(taken))
        return exits.SUCCESS
    lane = settings.lane(taken.lane)
    interrupted = database.read(lambda connection: interrupted_jobs(connection, {lane.name: 1}, now))
    assignment = Assignment(
        worker_id=worker_id,
        lane=lane.name,
        cycle_id=taken.cycle_id,
        deadline=monotonic() + lane.worker_timeout,
        window_seconds=lane.worker_timeout,
        lease_until=lease,
        is_long=lane.is_long,
        begins_with=next(iter(interrupted.get(lane.name, ())), None),
        is_submitted=True,
    )
    database.close()
    page = StatusPage(page_path(open_state_dir(settings), worker_id))
    return _run(assignment, settings, page, log)


# --- started manually -------------------------------------------------------------------------------------


def run_manually(settings: Settings, lanes: Sequence[str]) -> int:
    for lane in lanes:
        if settings.lane(lane).external:
            raise LaneIsExternal(lane)
    return run_lane(settings, lanes[0]) if len(lanes) == 1 else run_in_turn(settings, lanes)


def run_in_turn(settings: Settings, lanes: Sequence[str]) -> int:
    """Each lane in a process of its own, with the whole window of that lane; a stop signal ends the sequence.

    Returns the exit code of a cycle with these runners: an error takes precedence over a timeout.
    """
    runner: Process | None = None
    stops: list[int] = []
    codes: set[int] = set()

    def forward(number: int, _frame: FrameType | None) -> None:
        stops.append(number)
        if runner is not None:
            runner.send_signal(signal.Signals(number))

    for each in STOPS:
        signal.signal(each, forward)
    for lane in lanes:
        with stop_signals_held():  # a signal is handled when it can be forwarded
            pid = fork_into(partial(_run_lane_in_child, settings, lane, os.getpid()))
            runner = Process(pid, start_time(pid) or 0)
        codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if stops:
            break
    if codes <= {exits.SUCCESS, exits.TIMEOUT}:
        return max(codes)
    return exits.ERROR


def _run_lane_in_child(settings: Settings, lane: str, parent: int) -> int:
    forget_signals()  # they stay blocked until the guard is installed
    die_with_parent(parent)
    try:
        return run_lane(settings, lane)
    except MayflyError as error:
        return exits.report_error(error)


def run_lane(settings: Settings, lane: str) -> int:
    """Planned, recorded and fenced like any other runner, but without the guard of a dispatcher."""
    database = schema.open_database(settings)
    planned, assignment = _plan(database, settings, lane)
    database.close()
    if not planned.planned:
        refused = log_messages.no_worker_started(lane, ", ".join(planned.cuts))
        open_log(settings, "WORKER", echo=sys.stderr).write(refused)
        return exits.SUCCESS
    page = StatusPage(page_path(open_state_dir(settings), assignment.worker_id))
    log = open_log(settings, f"WORKER {assignment.worker_id}", echo=sys.stderr if sys.stderr.isatty() else None)
    code = _run(assignment, settings, page, log)
    status = page.read()
    if not assignment.is_long:
        close_own_row(database, assignment.worker_id, page, code)
    click.echo(f"{assignment.worker_id}: {plural(status.done, 'job')} done, {status.failed} failed")
    return code


def close_own_row(database: Database, worker_id: str, page: StatusPage, code: int) -> None:
    status, now = page.read(), database.clock.now()
    ending = {exits.SUCCESS: "ok", exits.TIMEOUT: "timeout"}.get(code, "error")
    usage = process_usage(os.getpid())
    ended = EndedRunner(
        ending,
        exit_code=code,
        jobs_done=status.done,
        jobs_failed=status.failed,
        average_ms=status.average_ms,
        peak_memory=usage and usage.peak_memory,
        cpu_ms=usage and usage.cpu_ms,
    )
    database.run(lambda connection: close_runner(connection, worker_id, ended, now))
    database.close()
    page.path.unlink(missing_ok=True)


def _plan(database: Database, settings: Settings, lane: str) -> tuple[PlannedLane, Assignment]:
    """The assignment is recorded if the plan has room for it."""
    host, process, now = this_host(settings.host_name), this_process(), database.clock.now()
    interrupted = database.read(lambda connection: interrupted_jobs(connection, {lane: 1}, now)).get(lane, [])
    with planning(database, settings.host_name) as number:
        assignment = _assign(settings.lane(lane), number, now, next(iter(interrupted), None))
        planned = database.read(lambda connection: plan_one(connection, settings, lane, now))

        def write(connection: Connection) -> None:
            finish_planning(connection, number)
            add_planned(connection, [assignment] if planned.planned else [], host, process, now)

        database.run(write)
    return planned, assignment


def _assign(lane: ResolvedLane, number: int, now: datetime, begins_with: int | None) -> Assignment:
    window = lane.worker_timeout
    lease = long_lease() if lane.is_long else timedelta(seconds=window + timing().lease_grace_seconds)
    return Assignment(
        worker_id=f"worker-{number}-1",
        lane=lane.name,
        cycle_id=number,
        deadline=monotonic() + window,
        window_seconds=window,
        lease_until=now + lease,
        is_long=lane.is_long,
        begins_with=begins_with,
    )


def plan_one(connection: Connection, settings: Settings, lane: str, now: datetime) -> PlannedLane:
    """One more runner of this lane by the rules of every plan, as if its backlog needed one more than it has."""
    live, live_here = live_by_lane_and_on_host(connection, this_host(settings.host_name))
    known, paused = known_lanes(connection), load_pauses(connection, now).lanes
    counts = []
    for name in sorted({lane, *live}):
        rules = lane_rules(settings, name, known.get(name, KnownLane()), paused.get(name))
        rules = replace(rules, launcher=None if name == lane else rules.launcher)  # this process is here
        running = live.get(name, 0)
        counts.append(LaneCount(rules, rules.batch_size * (running + 1) if name == lane else 0, running))
    room = slots(measure(), settings, live_here)
    plan = plan_runners(counts, settings.pools, room)
    return next(each for each in plan.lanes if each.count.lane.name == lane)


def main() -> None:
    """Exit like a forked runner: without joining blocked threads."""
    try:
        exits.run_command(command, "mayfly runner")
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else exits.ERROR)
